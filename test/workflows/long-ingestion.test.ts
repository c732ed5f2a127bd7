import { type WorkflowHandle, WorkflowUpdateFailedError } from '@temporalio/client';
import { CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { retryUpdateName, skipUpdateName, stageQueryName } from '#src/contracts/workflow-runs.ts';
import { type AppError, appError } from '#src/errors.ts';
import type { Orchestrator } from '#src/ports/orchestrator.ts';
import { searchAttributes } from '#src/temporal/connection.ts';
import { type Activities, converted, type StubActivities, stubActivities } from '#test/support/stub-activities.ts';
import { orchestratorOfRuns, startRun } from '#test/support/test-workers.ts';
import { detailsOf, failureOf } from '#test/support/workflow-run.ts';

let orchestrator: Orchestrator;
const input = { orgId: 'org', documentId: 'document', generation: 1 };
const summary = 'Ingest handbook.pdf';

/** Starts it with the options that the gateway uses. */
const ingest = (stub: StubActivities) =>
  startRun('ingestDocument', stub, input, {
    memo: { attempt: 2, startId: 'start-2', summary },
    staticSummary: summary,
    priority: { priorityKey: 4, fairnessKey: 'org' },
    typedSearchAttributes: searchAttributes({ OrgId: 'org', DocumentId: 'document', JobKind: 'ingest' }),
  });

describe('an ingestion that needs an operator', () => {
  before(async () => {
    orchestrator = await orchestratorOfRuns();
  });

  const refusedKey = () => appError('model_not_configured', { detail: 'The key was refused.' });

  /** Starts a run whose `embedChunks` throws the error until the run was resumed. */
  async function startStuck(error: AppError) {
    const stub = stubActivities({
      embedChunks: async () => {
        if (stub.timesOf('recordResumed') === 0) throw error;
        return { chunksEmbedded: 3 };
      },
    });
    const errorOf = (name: string) => Object(stub.calls.find((call) => call.name === name)?.input).error;
    return { ...stub, errorOf, run: await ingest(stub) };
  }

  it('shows the error that parked it, also after an operator has skipped it', async () => {
    const { run, errorOf, untilCalled } = await startStuck(refusedKey());
    await untilCalled('recordParked');
    expect(errorOf('recordParked')).deep.equal({ code: 'model_not_configured', message: 'The key was refused.' });
    expect(await detailsOf(run)).include('Parked: **model_not_configured**. The key was refused.');
    const error = { code: 'model_not_configured', message: appError('model_not_configured').message };
    expect(await orchestrator.inspect(run.workflowId)).deep.equal({ state: 'parked', error });

    await run.executeUpdate(skipUpdateName);
    await run.result().catch(() => undefined);
    const message = 'Skipped by an operator. The run was parked with model_not_configured: The key was refused.';
    const skipped = { code: 'skipped', message };
    expect(errorOf('recordFailure')).deep.equal(skipped);
    expect(await orchestrator.inspect(run.workflowId)).deep.equal({ state: 'failed', error: skipped });
  });

  it("rejects the operator's requests to retry or skip while it is not parked", async () => {
    const gate = Promise.withResolvers<void>();
    const embedChunks = () => gate.promise.then(() => ({ chunksEmbedded: 3 }));
    const run = await ingest(stubActivities({ embedChunks }));
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

  it('is parked when a step has failed in all its attempts, however long these took', async () => {
    const { run, errorOf, untilCalled } = await startStuck(appError('model_unavailable'));
    await untilCalled('embedChunks');
    const { events } = await run.fetchHistory();
    const step = events?.flatMap((event) => event.activityTaskScheduledEventAttributes ?? []).at(-1);
    expect(Number(step?.scheduleToCloseTimeout?.seconds ?? 0)).equal(0);
    expect(step?.retryPolicy?.maximumAttempts).equal(1_440);
    // Fewer attempts, because the real number takes a day.
    await run.client.workflowService.updateActivityOptions({
      namespace: run.client.options.namespace,
      execution: { workflowId: run.workflowId },
      type: 'embedChunks',
      activityOptions: { retryPolicy: { maximumAttempts: 2 } },
      updateMask: { paths: ['retry_policy.maximum_attempts'] },
    });
    await untilCalled('recordParked');
    const message = 'The model service is unreachable or overloaded';
    expect(errorOf('recordParked')).deep.equal({ code: 'model_unavailable', message });
    await run.executeUpdate(retryUpdateName);
    expect(await run.result()).deep.equal({ chunks: 3 });
  });
});

describe('an ingestion with a long history', () => {
  before(async () => {
    orchestrator = await orchestratorOfRuns();
  });

  const SLICES = 55;
  /** Stubs that embed all slices; the last one is held until `release`. */
  function heldInTheLastSlice(): StubActivities & { release(): void } {
    const held = Promise.withResolvers<void>();
    let slice = 0;
    const stub = stubActivities({
      embedChunks: async () => {
        if (slice + 1 === SLICES) await held.promise;
        slice += 1;
        return { chunksEmbedded: slice, chunksLeft: SLICES - slice, expectedSeconds: 7 };
      },
    });
    return { ...stub, release: held.resolve };
  }
  const expectNewHistory = async (run: WorkflowHandle & { firstExecutionRunId: string }) =>
    expect((await run.describe()).runId).not.equal(run.firstExecutionRunId);

  it('continues in a new history with its memo, priority, attributes and progress', async () => {
    const stub = heldInTheLastSlice();
    const run = await ingest(stub);
    await stub.untilCalled('embedChunks', SLICES);
    await expectNewHistory(run);
    const { memo, priority, typedSearchAttributes, status } = await run.describe();
    expect(status.name).equal('RUNNING');
    expect(memo).deep.include({ attempt: 2, startId: 'start-2' });
    expect(priority).deep.include({ priorityKey: 4, fairnessKey: 'org' });
    const attributes = typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]);
    expect(Object.fromEntries(attributes)).include({ OrgId: 'org', DocumentId: 'document', Stage: 'embed' });
    expect(await detailsOf(run)).include(`${summary}\n\nEmbedding 3 chunks: 1 are left, for about 7 seconds`);
    expect(await run.query(stageQueryName)).include({ stage: 'embed', chunksTotal: 3 });
    expect(await orchestrator.inspect(run.workflowId)).deep.equal({ state: 'open' });

    stub.release();
    expect(await run.result()).deep.equal({ chunks: 3 });
    const others = stub.names.filter((name) => name !== 'embedChunks');
    expect(others).deep.equal(['parseDocument', 'convertDocument', 'chunkDocument', 'activateGeneration']);
    expect(await orchestrator.describe(run.workflowId)).equal('completed');
  });

  it('continues in a new history while it embeds sentences for chunking or adds contextual texts', async () => {
    let [windowsLeft, chunksLeft] = [30, 30];
    const stub = stubActivities({
      convertDocument: async () => ({ ...converted, needsWindows: true, needsContexts: true }),
      embedWindows: async () => ({ windowsEmbedded: 1, windowsLeft: Math.max(0, --windowsLeft) }),
      situateChunks: async () => ({ chunksSituated: 1, chunksLeft: --chunksLeft }),
    });
    const run = await ingest(stub);
    expect(await run.result()).deep.equal({ chunks: 3 });
    await expectNewHistory(run);
    expect(stub.timesOf('convertDocument')).equal(1);
    expect(stub.timesOf('situateChunks')).equal(30);
    expect(stub.names.slice(-3)).deep.equal(['chunkDocument', 'embedChunks', 'activateGeneration']);
  });

  it('can be cancelled in a new history, and records this for the job attempt that started the run', async () => {
    const stub = heldInTheLastSlice();
    const run = await ingest(stub);
    await stub.untilCalled('embedChunks', SLICES);
    await expectNewHistory(run);
    await orchestrator.cancel(run.workflowId);
    stub.release();
    expect(await failureOf(run)).instanceOf(CancelledFailure);
    const recorded = { ...input, attempt: 2, startId: 'start-2' };
    expect(stub.calls.at(-1)).deep.equal({ name: 'recordCancellation', input: recorded });
    expect(stub.names).not.include('activateGeneration');
    expect(await orchestrator.describe(run.workflowId)).equal('cancelled');
  });

  it('counts losses of vectors across histories, and fails at the third loss', async () => {
    let chunksLeft = 0;
    const stub = stubActivities({
      embedChunks: async () => {
        chunksLeft = (chunksLeft || 20) - 1;
        return { chunksEmbedded: 20 - chunksLeft, chunksLeft };
      },
      activateGeneration: async () => {
        throw appError('vectors_missing');
      },
    });
    const run = await ingest(stub);
    expect(await failureOf(run)).property('type', 'vectors_missing');
    await expectNewHistory(run);
    expect(stub.timesOf('activateGeneration')).equal(3);
  });

  it('fails with no_progress when a step succeeds without progress', async () => {
    const idle: Partial<Activities> = {
      embedWindows: async () => ({ windowsEmbedded: 0, windowsLeft: 5 }),
      situateChunks: async () => ({ chunksSituated: 0, chunksLeft: 5 }),
      embedChunks: async () => ({ chunksEmbedded: 0, chunksLeft: 5 }),
    };
    for (const step of Object.keys(idle) as (keyof Activities)[]) {
      const needs = { needsWindows: step === 'embedWindows', needsContexts: step === 'situateChunks' };
      const stub = stubActivities({ convertDocument: async () => ({ ...converted, ...needs }), [step]: idle[step] });
      const run = await ingest(stub);
      expect(await failureOf(run)).property('type', 'no_progress');
      expect(stub.timesOf(step)).equal(2);
      expect(stub.names.at(-1)).equal('recordFailure');
    }
  });
});
