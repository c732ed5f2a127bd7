import type { Client } from '@temporalio/client';

type History = NonNullable<Awaited<ReturnType<ReturnType<Client['workflow']['getHandle']>['fetchHistory']>>['events']>;

/** `heartbeats` are estimated from the durations of the activities, because histories do not contain them. */
export type RunTotals = { runs: number; events: number; historyBytes: number; actions: number; heartbeats: number };

/** An activity sends a heartbeat after each 3 seconds. */
const heartbeatSeconds = 3;

/** Adds up the runs that started in a period, by workflow type. */
export async function readRuns(
  temporal: Client,
  { since, until }: { since: Date; until: Date },
): Promise<Map<string, RunTotals>> {
  const totals = new Map<string, RunTotals>();
  const query = `StartTime >= "${since.toISOString()}" AND StartTime <= "${until.toISOString()}"`;
  for await (const { type, workflowId, runId, historyLength, historySize } of temporal.workflow.list({ query })) {
    const { events } = await temporal.workflow.getHandle(workflowId, runId).fetchHistory();
    const own = totals.get(type) ?? { runs: 0, events: 0, historyBytes: 0, actions: 0, heartbeats: 0 };
    own.runs += 1;
    own.events += historyLength;
    own.historyBytes += historySize ?? 0;
    own.actions += countActions(events ?? []);
    own.heartbeats += countHeartbeats(events ?? []);
    totals.set(type, own);
  }
  return totals;
}

/**
 * Counts billable actions by the definition of Temporal Cloud (docs.temporal.io/cloud/actions): a start 1, a child
 * workflow 2, a signal with start 1 together; each attempt of an activity, timer, signal, update and upsert of search
 * attributes 1. Histories show no heartbeats and no queries.
 */
export function countActions(events: History): number {
  let actions = 0;
  for (const [index, event] of events.entries()) {
    const started = event.workflowExecutionStartedEventAttributes;
    if (started) actions += started.parentWorkflowExecution ? 2 : 1;
    if (event.activityTaskStartedEventAttributes) actions += event.activityTaskStartedEventAttributes.attempt ?? 1;
    // A signal that is the second event came with the start.
    if (event.workflowExecutionSignaledEventAttributes && index !== 1) actions += 1;
    if (event.timerStartedEventAttributes || event.workflowExecutionUpdateAcceptedEventAttributes) actions += 1;
    const upserted = event.upsertWorkflowSearchAttributesEventAttributes?.searchAttributes?.indexedFields;
    // Temporal writes this attribute for `patched`, and does not bill it.
    if (upserted && Object.keys(upserted).some((name) => name !== 'TemporalChangeVersion')) actions += 1;
  }
  return actions;
}

function countHeartbeats(events: History): number {
  const startedAt = new Map<string, number>();
  let heartbeats = 0;
  for (const event of events) {
    const seconds = Number(event.eventTime?.seconds ?? 0) + (event.eventTime?.nanos ?? 0) / 1e9;
    if (event.activityTaskStartedEventAttributes) startedAt.set(String(event.eventId), seconds);
    const done = event.activityTaskCompletedEventAttributes;
    if (done)
      heartbeats += Math.floor((seconds - (startedAt.get(String(done.startedEventId)) ?? seconds)) / heartbeatSeconds);
  }
  return heartbeats;
}
