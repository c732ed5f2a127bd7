import { type WorkflowHandle, WorkflowUpdateFailedError } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import type { IngestionActivities } from '#activities/ingestion.ts';
import { retryUpdateName, skipUpdateName } from '#src/contracts/workflow-runs.ts';
import { type AppError, appError } from '#src/errors.ts';
import type { WorkflowRunState } from '#src/ports/orchestrator.ts';
import { createOrchestrator } from '#src/temporal/orchestrator.ts';
import { type StandingWorker, standingWorker } from '#test/support/standing-worker.ts';
import { stubIngestion } from '#test/support/stub-activities.ts';
import { attributeOf, failureOf } from '#test/support/workflow-run.ts';

describe('an ingestion that needs a person', () => {
  let worker: StandingWorker;

  before(async () => {
    worker = await standingWorker();
  });

  const inspect = (run: WorkflowHandle): Promise<WorkflowRunState> =>
    createOrchestrator(worker.temporal, { uiUrl: null }).inspect(run.workflowId);

  const input = { orgId: 'org', documentId: 'document', generation: 1 };
  const refusedKey = () => appError('model_not_configured', { detail: 'The key was refused.' });

  /** Activities whose `embedChunks` throws the first fault until the run is resumed, and so on; and what was recorded. */
  function stuckIngestion(...faults: AppError[]) {
    const parked: unknown[] = [];
    const failed: unknown[] = [];
    const stub = stubIngestion({
      embedChunks: async () => {
        const timesResumed = stub.names.filter((name) => name === 'recordResumed').length;
        const fault = faults[timesResumed];
        if (fault !== undefined) throw fault;
        return { chunksEmbedded: 3, chunksLeft: 0 };
      },
      recordParked: async ({ error }) => {
        parked.push(error);
      },
      recordFailure: async ({ error }) => {
        failed.push(error);
      },
    });
    return { ...stub, parked, failed };
  }

  const ingest = (activities: IngestionActivities) => worker.start('ingestDocument', activities, { args: [input] });

  async function refusalOf(answer: Promise<unknown>): Promise<unknown> {
    const error: unknown = await answer.catch((thrown: unknown) => thrown);
    expect(error).instanceOf(WorkflowUpdateFailedError);
    return error instanceof WorkflowUpdateFailedError ? error.cause : undefined;
  }

  it('is parked and shows the reason', async () => {
    const { activities, names, parked, untilCalled } = stuckIngestion(refusedKey());
    const run = await ingest(activities);
    await untilCalled('recordParked');
    expect(parked).deep.equal([{ code: 'model_not_configured', message: 'The key was refused.' }]);
    expect(await attributeOf(run, 'ErrorCode')).equal('model_not_configured');
    expect(await attributeOf(run, 'Stage')).equal('embed');
    expect(await run.query('__temporal_workflow_metadata'))
      .property('currentDetails')
      .match(/^Parked: \*\*model_not_configured\*\*\. The key was refused\./);
    expect((await run.describe()).status.name).equal('RUNNING');
    expect(await inspect(run)).deep.equal({
      state: 'parked',
      error: { code: 'model_not_configured', message: appError('model_not_configured').message },
    });
    expect(names).not.include('recordFailure');
    await run.terminate();
  });

  it('continues with the failed step on retry', async () => {
    const { activities, names, untilCalled } = stuckIngestion(refusedKey());
    const run = await ingest(activities);
    await untilCalled('recordParked');
    await run.executeUpdate(retryUpdateName);
    expect(names).include('recordResumed');
    expect(await run.result()).deep.equal({ chunks: 3 });
    expect(names).deep.equal([
      'parseDocument',
      'convertDocument',
      'chunkDocument',
      'embedChunks',
      'recordParked',
      'recordResumed',
      'embedChunks',
      'activateGeneration',
    ]);
    expect(await attributeOf(run, 'ErrorCode')).equal(undefined);
  });

  it('is parked again when the fault persists', async () => {
    const { activities, untilCalled } = stuckIngestion(refusedKey(), refusedKey());
    const run = await ingest(activities);
    await untilCalled('recordParked');
    await run.executeUpdate(retryUpdateName);
    await untilCalled('recordParked', 2);
    await run.executeUpdate(retryUpdateName);
    expect(await run.result()).deep.equal({ chunks: 3 });
  });

  it('fails when an operator skips it', async () => {
    const { activities, failed, untilCalled } = stuckIngestion(refusedKey());
    const run = await ingest(activities);
    await untilCalled('recordParked');
    await run.executeUpdate(skipUpdateName);
    expect(await failureOf(run))
      .instanceOf(ApplicationFailure)
      .property('type', 'skipped');
    expect(failed).deep.equal([
      {
        code: 'skipped',
        message: 'Skipped by an operator. The run was parked with model_not_configured: The key was refused.',
      },
    ]);
    expect(await attributeOf(run, 'ErrorCode')).equal('skipped');
    expect(await inspect(run)).deep.equal({
      state: 'failed',
      error: {
        code: 'skipped',
        message: 'Skipped by an operator. The run was parked with model_not_configured: The key was refused.',
      },
    });
  });

  it('can be cancelled while it is parked', async () => {
    const { activities, names, untilCalled } = stuckIngestion(refusedKey());
    const run = await ingest(activities);
    await untilCalled('recordParked');
    await run.cancel();
    expect(await failureOf(run)).instanceOf(CancelledFailure);
    expect(names.at(-1)).equal('recordCancellation');
  });

  it('rejects retry and skip while it runs', async () => {
    const gate = Promise.withResolvers<void>();
    const { activities } = stubIngestion({
      embedChunks: async () => {
        await gate.promise;
        return { chunksEmbedded: 3, chunksLeft: 0 };
      },
    });
    const run = await ingest(activities);
    for (const update of [retryUpdateName, skipUpdateName]) {
      expect(await refusalOf(run.executeUpdate(update))).property('type', 'job_not_parked');
    }
    gate.resolve();
    expect(await run.result()).deep.equal({ chunks: 3 });
  });

  it('accepts one of several concurrent retries and skips', async () => {
    const { activities, untilCalled } = stuckIngestion(refusedKey());
    const run = await ingest(activities);
    await untilCalled('recordParked');
    const answers = await Promise.allSettled([
      run.executeUpdate(retryUpdateName),
      run.executeUpdate(skipUpdateName),
      run.executeUpdate(retryUpdateName),
    ]);
    expect(answers.filter(({ status }) => status === 'fulfilled')).length(1);
    await run.result().catch(() => undefined);
  });

  it('is parked when its step has used up its attempts, which have no time limit', async () => {
    const { activities, parked, untilCalled } = stuckIngestion(appError('model_unavailable'));
    const run = await ingest(activities);
    await untilCalled('embedChunks');
    const { events } = await run.fetchHistory();
    const [step] = events?.flatMap((event) => event.activityTaskScheduledEventAttributes ?? []).slice(-1) ?? [];
    expect(Number(step?.scheduleToCloseTimeout?.seconds ?? 0)).equal(0);
    expect(step?.retryPolicy?.maximumAttempts).equal(1_440);
    // Fewer attempts, because the real number takes a day.
    await worker.client.workflowService.updateActivityOptions({
      namespace: worker.client.options.namespace,
      execution: { workflowId: run.workflowId },
      type: 'embedChunks',
      activityOptions: { retryPolicy: { maximumAttempts: 2 } },
      updateMask: { paths: ['retry_policy.maximum_attempts'] },
    });
    await untilCalled('recordParked');
    expect(parked).deep.equal([
      { code: 'model_unavailable', message: 'The model service is unreachable or overloaded' },
    ]);
    await run.executeUpdate(retryUpdateName);
    expect(await run.result()).deep.equal({ chunks: 3 });
  });
});
