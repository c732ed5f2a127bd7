import type { WorkflowHandleWithFirstExecutionRunId } from '@temporalio/client';
import type { temporal } from '@temporalio/proto';

export type HistoryEvent = temporal.api.history.v1.IHistoryEvent;

/** Follows the history of a workflow's first run by long polling, until `find` returns neither undefined nor false. */
export async function untilHistory<T>(
  { client, workflowId, firstExecutionRunId }: WorkflowHandleWithFirstExecutionRunId,
  find: (events: readonly HistoryEvent[]) => T | undefined | false,
): Promise<T> {
  const events: HistoryEvent[] = [];
  for (let nextPageToken: Uint8Array | undefined; ; ) {
    const answer = await client.workflowService.getWorkflowExecutionHistory({
      namespace: client.options.namespace,
      execution: { workflowId, runId: firstExecutionRunId },
      waitNewEvent: true,
      ...(nextPageToken && { nextPageToken }),
    });
    events.push(...(answer.history?.events ?? []));
    const found = find(events);
    if (found !== undefined && found !== false) return found;
    if (!answer.nextPageToken?.length) throw new Error(`The run ${firstExecutionRunId} has closed without the event.`);
    nextPageToken = answer.nextPageToken;
  }
}

/** The names of the activities whose completion is in the history, in order. */
export function completedActivities(events: readonly HistoryEvent[]): string[] {
  return events.flatMap(({ activityTaskCompletedEventAttributes: completed }) => {
    if (!completed) return [];
    const scheduled = events[Number(completed.scheduledEventId) - 1]?.activityTaskScheduledEventAttributes;
    return scheduled?.activityType?.name ?? [];
  });
}
