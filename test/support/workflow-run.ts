import { WorkflowFailedError, type WorkflowHandle, WorkflowNotFoundError } from '@temporalio/client';
import type { Payload, PayloadCodec } from '@temporalio/common';
import proto, { type temporal } from '@temporalio/proto';
import { expect } from 'chai';
import type { Container } from '#src/container.ts';
import { until } from './until.ts';

const { PENDING_ACTIVITY_STATE_STARTED: STARTED } = proto.temporal.api.enums.v1.PendingActivityState;

type RunClient = Pick<Container, 'temporal' | 'orchestrator'>;
type RunState = Awaited<ReturnType<RunClient['orchestrator']['describe']>>;

/** @returns the failure of a run; throws if the run succeeds */
export async function failureOf(run: WorkflowHandle): Promise<unknown> {
  const error: unknown = await run.result().catch((failure: unknown) => failure);
  expect(error).instanceOf(WorkflowFailedError);
  return (error as WorkflowFailedError).cause;
}

/** Waits until a run has closed. @returns its final status; `unknown` if Temporal has no run with this id */
export async function untilClosed({ temporal, orchestrator }: RunClient, workflowId: string): Promise<RunState> {
  try {
    await temporal.client.workflow.getHandle(workflowId).result();
  } catch (error) {
    if (!(error instanceof WorkflowFailedError || error instanceof WorkflowNotFoundError)) throw error;
  }
  return orchestrator.describe(workflowId);
}

export async function attributeOf(run: WorkflowHandle, name: string): Promise<unknown> {
  const { typedSearchAttributes } = await run.describe();
  return typedSearchAttributes.getAll().find((pair) => pair.key.name === name)?.value;
}

export async function startedSteps(run: WorkflowHandle): Promise<string[]> {
  const { pendingActivities } = (await run.describe()).raw;
  const started = pendingActivities?.filter(({ state }) => state === STARTED) ?? [];
  return started.map(({ activityType }) => activityType?.name ?? '');
}

export async function detailsOf(run: WorkflowHandle): Promise<string> {
  const { currentDetails }: { currentDetails?: string } = await run.query('__temporal_workflow_metadata');
  return currentDetails ?? '';
}

export type HistoryEvent = temporal.api.history.v1.IHistoryEvent;

/** Waits until `find` returns neither undefined nor false for the events of the latest run of a workflow. */
export function untilHistory<T>(
  run: WorkflowHandle,
  find: (events: readonly HistoryEvent[]) => T | undefined | false,
): Promise<T> {
  return until(`${run.workflowId} has the event`, async () => find((await run.fetchHistory()).events ?? []));
}

/** Payload codecs are not applied to what Temporal reads itself, to trace headers and to names of code changes. */
const neverEncoded = new Set(['searchAttributes', 'header', 'markerRecordedEventAttributes']);

/** Replaces each payload of a history by what a codec makes of it. */
export async function mapPayloads<T>(message: T, codec: PayloadCodec['encode']): Promise<T> {
  if (typeof message !== 'object' || message === null || ArrayBuffer.isView(message)) return message;
  if ('metadata' in message && 'data' in message && !('summary' in message))
    return (await codec([message as Payload]))[0] as T;
  // Messages keep their prototype, by which they are written.
  for (const [name, value] of Object.entries(message)) {
    if (!neverEncoded.has(name)) Object.assign(message, { [name]: await mapPayloads(value, codec) });
  }
  return message;
}
