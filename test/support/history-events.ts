import type { WorkflowHandle } from '@temporalio/client';
import type { temporal } from '@temporalio/proto';

export type HistoryEvent = temporal.api.history.v1.IHistoryEvent;

/**
 * Follows a history by long polling until `find` returns neither undefined nor false: that of the workflow's first run
 * where the handle names it.
 */
export async function untilHistory<T>(
  { client, workflowId, firstExecutionRunId }: WorkflowHandle & { firstExecutionRunId?: string },
  find: (events: readonly HistoryEvent[]) => T | undefined | false,
): Promise<T> {
  const events: HistoryEvent[] = [];
  for (let nextPageToken: Uint8Array | undefined; ; ) {
    const answer = await client.workflowService.getWorkflowExecutionHistory({
      namespace: client.options.namespace,
      execution: { workflowId, runId: firstExecutionRunId ?? null },
      waitNewEvent: true,
      ...(nextPageToken && { nextPageToken }),
    });
    events.push(...(answer.history?.events ?? []));
    const found = find(events);
    if (found !== undefined && found !== false) return found;
    if (!answer.nextPageToken?.length) throw new Error(`The run of ${workflowId} has closed without the event.`);
    nextPageToken = answer.nextPageToken;
  }
}
