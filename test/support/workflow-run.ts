import { WorkflowFailedError, type WorkflowHandle, WorkflowNotFoundError } from '@temporalio/client';
import proto from '@temporalio/proto';
import { expect } from 'chai';
import type { Container } from '#src/container.ts';

const { PENDING_ACTIVITY_STATE_STARTED: STARTED } = proto.temporal.api.enums.v1.PendingActivityState;

type RunClient = Pick<Container, 'temporal' | 'orchestrator'>;
type RunState = Awaited<ReturnType<RunClient['orchestrator']['describe']>>;

/** @returns the failure of a run; throws if the run succeeds */
export async function failureOf(run: WorkflowHandle): Promise<unknown> {
  const error: unknown = await run.result().then(
    () => undefined,
    (failure: unknown) => failure,
  );
  expect(error).instanceOf(WorkflowFailedError);
  return error instanceof WorkflowFailedError ? error.cause : undefined;
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

/** @returns the value of a search attribute; undefined if it is not set */
export async function attributeOf(run: WorkflowHandle, name: string): Promise<unknown> {
  const { typedSearchAttributes } = await run.describe();
  return typedSearchAttributes.getAll().find((pair) => pair.key.name === name)?.value;
}

/** @returns the activities that a worker is executing */
export async function startedSteps(run: WorkflowHandle): Promise<string[]> {
  const { pendingActivities } = (await run.describe()).raw;
  const started = pendingActivities?.filter(({ state }) => state === STARTED) ?? [];
  return started.map(({ activityType }) => activityType?.name ?? '');
}

/** @returns the current details of a run */
export async function detailsOf(run: WorkflowHandle): Promise<string> {
  const { currentDetails }: { currentDetails?: string } = await run.query('__temporal_workflow_metadata');
  return currentDetails ?? '';
}
