import { type WorkflowHandle, WorkflowUpdateFailedError } from '@temporalio/client';
import { CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import type { IngestionActivities } from '#activities/ingestion.ts';
import type { IngestionProgress } from '#src/contracts/ingestion.ts';
import { retryUpdateName, skipUpdateName, stageQueryName } from '#src/contracts/workflow-runs.ts';
import { type AppError, appError } from '#src/errors.ts';
import type { Orchestrator, WorkflowRunState } from '#src/ports/orchestrator.ts';
import { searchAttributes } from '#src/temporal/connection.ts';
import { createOrchestrator } from '#src/temporal/orchestrator.ts';
import { type StandingWorker, standingWorker } from '#test/support/standing-worker.ts';
import { stubIngestion } from '#test/support/stub-activities.ts';
import { detailsOf, failureOf } from '#test/support/workflow-run.ts';

describe('an ingestion that needs an operator', () => {
  let worker: StandingWorker;
  before(async () => {
    worker = await standingWorker();
  });

  const inspect = (run: WorkflowHandle): Promise<WorkflowRunState> =>
    createOrchestrator(worker.temporal, { uiUrl: null }).inspect(run.workflowId);
  const ingest = (activities: IngestionActivities) =>
    worker.start('ingestDocument', activities, { args: [{ orgId: 'org', documentId: 'document', generation: 1 }] });
  const refusedKey = () => appError('model_not_configured', { detail: 'The key was refused.' });

  /** Starts a run whose `embedChunks` throws the error until the run was resumed a number of times. */
  async function startStuck(error: AppError, untilResumed = 1) {
    const parked: unknown[] = [];
    const failed: unknown[] = [];
    const stub = stubIngestion({
      embedChunks: async () => {
        if (stub.names.filter((name) => name === 'recordResumed').length < untilResumed) throw error;
        return { chunksEmbedded: 3, chunksLeft: 0 };
      },
      recordParked: async ({ error }) => void parked.push(error),
      recordFailure: async ({ error }) => void failed.push(error),
    });
    return { ...stub, parked, failed, run: await ingest(stub.activities) };
  }

  it('shows the error that parked it, also after an operator has skipped it', async () => {
    const { run, parked, failed, untilCalled } = await startStuck(refusedKey());
    await untilCalled('recordParked');
    expect(parked).deep.equal([{ code: 'model_not_configured', message: 'The key was refused.' }]);
    expect(await run.query('__temporal_workflow_metadata'))
      .property('currentDetails')
      .match(/^Parked: \*\*model_not_configured\*\*\. The key was refused\./);
    const error = { code: 'model_not_configured', message: appError('model_not_configured').message };
    expect(await inspect(run)).deep.equal({ state: 'parked', error });

    await run.executeUpdate(skipUpdateName);
    await run.result().catch(() => undefined);
    const message = 'Skipped by an operator. The run was parked with model_not_configured: The key was refused.';
    expect(failed).deep.equal([{ code: 'skipped', message }]);
    expect(await inspect(run)).deep.equal({ state: 'failed', error: { code: 'skipped', message } });
  });

  it('is parked again when the fault persists', async () => {
    const { run, untilCalled } = await startStuck(refusedKey(), 2);
    for (const times of [1, 2]) {
      await untilCalled('recordParked', times);
      await run.executeUpdate(retryUpdateName);
    }
    expect(await run.result()).deep.equal({ chunks: 3 });
  });

  it("rejects the operator's requests to retry or skip while it is not parked", async () => {
    const gate = Promise.withResolvers<void>();
    const { activities } = stubIngestion({
      embedChunks: () => gate.promise.then(() => ({ chunksEmbedded: 3, chunksLeft: 0 })),
    });
    const run = await ingest(activities);
    for (const update of [retryUpdateName, skipUpdateName]) {
      const refusal: unknown = await run.executeUpdate(update).catch((thrown: unknown) => thrown);
      expect(refusal).instanceOf(WorkflowUpdateFailedError).nested.property('cause.type', 'job_not_parked');
    }
    gate.resolve();
    expect(await run.result()).deep.equal({ chunks: 3 });
  });

  it('accepts only one of several concurrent requests to retry or skip', async () => {
    const { run, untilCalled } = await startStuck(refusedKey());
    await untilCalled('recordParked');
    const updates = [retryUpdateName, skipUpdateName, retryUpdateName];
    const answers = await Promise.allSettled(updates.map((update) => run.executeUpdate(update)));
    expect(answers.filter(({ status }) => status === 'fulfilled')).length(1);
    await run.result().catch(() => undefined);
  });

  it('is parked when a step has used up its attempts, which have no time limit', async () => {
    const { run, parked, untilCalled } = await startStuck(appError('model_unavailable'));
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
    const message = 'The model service is unreachable or overloaded';
    expect(parked).deep.equal([{ code: 'model_unavailable', message }]);
    await run.executeUpdate(retryUpdateName);
    expect(await run.result()).deep.equal({ chunks: 3 });
  });
});

describe('an ingestion with a long history', () => {
  let worker: StandingWorker;
  let orchestrator: Orchestrator;

  before(async () => {
    worker = await standingWorker();
    orchestrator = createOrchestrator(worker.temporal, { uiUrl: null });
  });

  const input = { orgId: 'org', documentId: 'document', generation: 1 };
  const summary = 'Ingest document document, generation 1';

  /** Starts it with the options that the gateway uses. */
  const ingest = (activities: IngestionActivities) =>
    worker.start('ingestDocument', activities, {
      args: [input],
      memo: { attempt: 2, startId: 'start-2', summary },
      staticSummary: summary,
      priority: { priorityKey: 4, fairnessKey: 'org' },
      typedSearchAttributes: searchAttributes({ OrgId: 'org', DocumentId: 'document', JobKind: 'ingest' }),
    });

  const converted = { charCount: 12, pageCount: null, reused: false };
  const slices = 55;
  /** Embeds all slices and names `during` in each. */
  function embedding(during: (slice: number) => unknown = () => undefined): IngestionActivities['embedChunks'] {
    let slice = 0;
    return async () => {
      await during(slice + 1);
      slice += 1;
      return { chunksEmbedded: slice, chunksLeft: slices - slice };
    };
  }
  const runIdOf = async (run: WorkflowHandle) => (await run.describe()).runId;

  it('continues in a new history with its memo, priority, attributes and progress', async () => {
    const held = Promise.withResolvers<void>();
    const { activities, names, untilCalled } = stubIngestion({
      embedChunks: embedding((slice) => slice === slices && held.promise),
    });
    const run = await ingest(activities);
    await untilCalled('embedChunks', slices);
    expect(await runIdOf(run)).not.equal(run.firstExecutionRunId);
    const { memo, priority, typedSearchAttributes, status } = await run.describe();
    expect(status.name).equal('RUNNING');
    expect(memo).deep.include({ attempt: 2, startId: 'start-2' });
    expect(priority).deep.include({ priorityKey: 4, fairnessKey: 'org' });
    const attributes = typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]);
    expect(Object.fromEntries(attributes)).include({ OrgId: 'org', DocumentId: 'document', Stage: 'embed' });
    expect(await detailsOf(run)).include(`${summary}\n\nEmbedding 3 chunks`);
    expect(await run.query<IngestionProgress>(stageQueryName)).include({ stage: 'embed', chunksTotal: 3 });
    expect(await orchestrator.inspect(run.workflowId)).deep.equal({ state: 'open' });

    held.resolve();
    expect(await run.result()).deep.equal({ chunks: 3 });
    const others = names.filter((name) => name !== 'embedChunks');
    expect(others).deep.equal(['parseDocument', 'convertDocument', 'chunkDocument', 'activateGeneration']);
    expect(await orchestrator.describe(run.workflowId)).equal('completed');
  });

  it('continues in a new history while it embeds windows and adds contextual texts', async () => {
    let windowsLeft = 30;
    let chunksLeft = 30;
    const { activities, names } = stubIngestion({
      convertDocument: async () => ({ ...converted, needsWindows: true, needsContexts: true }),
      embedWindows: async () => ({ windowsEmbedded: 1, windowsLeft: Math.max(0, --windowsLeft) }),
      situateChunks: async () => ({ chunksSituated: 1, chunksLeft: --chunksLeft }),
    });
    const run = await ingest(activities);
    expect(await run.result()).deep.equal({ chunks: 3 });
    expect(await runIdOf(run)).not.equal(run.firstExecutionRunId);
    expect(names.filter((name) => name === 'convertDocument')).length(1);
    expect(names.filter((name) => name === 'situateChunks')).length(30);
    expect(names.slice(-3)).deep.equal(['chunkDocument', 'embedChunks', 'activateGeneration']);
  });

  it('can be cancelled in a new history, and records the cancellation for the attempt that started it', async () => {
    const recorded: unknown[] = [];
    const held = Promise.withResolvers<void>();
    const { activities, names, untilCalled } = stubIngestion({
      embedChunks: embedding((slice) => slice === slices && held.promise),
      recordCancellation: async (end) => void recorded.push(end),
    });
    const run = await ingest(activities);
    await untilCalled('embedChunks', slices);
    expect(await runIdOf(run)).not.equal(run.firstExecutionRunId);
    await orchestrator.cancel(run.workflowId);
    held.resolve();
    expect(await failureOf(run)).instanceOf(CancelledFailure);
    expect(recorded).deep.equal([{ ...input, attempt: 2, startId: 'start-2' }]);
    expect(names).not.include('activateGeneration');
    expect(await orchestrator.describe(run.workflowId)).equal('cancelled');
  });

  it('counts losses of vectors across histories, and fails at the third loss', async () => {
    let chunksLeft = 0;
    const { activities, names } = stubIngestion({
      embedChunks: async () => {
        chunksLeft = (chunksLeft || 20) - 1;
        return { chunksEmbedded: 20 - chunksLeft, chunksLeft };
      },
      activateGeneration: async () => {
        throw appError('vectors_missing');
      },
    });
    const run = await ingest(activities);
    expect(await failureOf(run)).property('type', 'vectors_missing');
    expect(await runIdOf(run)).not.equal(run.firstExecutionRunId);
    expect(names.filter((name) => name === 'activateGeneration')).length(3);
  });

  it('fails with no_progress when a step succeeds without progress', async () => {
    const cases: [keyof IngestionActivities, Partial<IngestionActivities>][] = [
      ['embedWindows', { embedWindows: async () => ({ windowsEmbedded: 0, windowsLeft: 5 }) }],
      ['situateChunks', { situateChunks: async () => ({ chunksSituated: 0, chunksLeft: 5 }) }],
      ['embedChunks', { embedChunks: async () => ({ chunksEmbedded: 0, chunksLeft: 5 }) }],
    ];
    for (const [step, replaced] of cases) {
      const needs = { needsWindows: step === 'embedWindows', needsContexts: step === 'situateChunks' };
      const { activities, names } = stubIngestion({
        convertDocument: async () => ({ ...converted, ...needs }),
        ...replaced,
      });
      const run = await ingest(activities);
      expect(await failureOf(run)).property('type', 'no_progress');
      expect(names.filter((name) => name === step)).length(2);
      expect(names.at(-1)).equal('recordFailure');
    }
  });
});
