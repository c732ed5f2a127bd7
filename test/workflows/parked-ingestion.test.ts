import { type WorkflowHandle, WorkflowUpdateFailedError } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import type { IngestionActivities } from '#activities/ingestion.ts';
import { retryUpdateName, skipUpdateName } from '#src/contracts/messages.ts';
import { type AppError, appError } from '#src/errors.ts';
import type { RunReport } from '#src/ports/orchestrator.ts';
import { createOrchestrator } from '#src/temporal/gateway.ts';
import { testServices } from '#test/support/services.ts';
import { stubIngestion } from '#test/support/stub-ingestion.ts';
import { connectToTemporal } from '#test/support/temporal-client.ts';
import { type TestWorkers, testWorkers } from '#test/support/test-workers.ts';
import { until } from '#test/support/until.ts';
import { attributeOf, failureOf } from '#test/support/workflow-run.ts';

describe('an ingestion that needs a person', function () {
  this.timeout(60_000);
  let temporal: TestWorkers;

  before(async () => {
    temporal = await testWorkers();
  });
  after(() => temporal.close());

  async function inspect(run: WorkflowHandle): Promise<RunReport> {
    const connection = connectToTemporal({ address: testServices().temporalAddress, namespace: 'default' });
    const report = await createOrchestrator(connection, { uiUrl: null }).inspect(run.workflowId);
    await connection.close();
    return report;
  }

  const input = { orgId: 'org', documentId: 'document', generation: 1 };
  const refusedKey = () => appError('model_not_configured', { detail: 'The key was refused.' });

  /** Activities whose `embedChunks` throws these, one after the other, and then works; and what was recorded. */
  function stuckIngestion(...faults: AppError[]) {
    const parked: unknown[] = [];
    const failed: unknown[] = [];
    const stub = stubIngestion({
      embedChunks: async () => {
        const fault = faults.shift();
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

  async function ingest(activities: IngestionActivities, use: (run: WorkflowHandle) => Promise<void>): Promise<void> {
    await temporal.withWorker(activities, async (taskQueue) => {
      const workflowId = `test-${uuidv7()}`;
      await use(await temporal.client.workflow.start('ingestDocument', { workflowId, taskQueue, args: [input] }));
    });
  }

  async function untilParked(run: WorkflowHandle, recorded: readonly unknown[], times = 1): Promise<void> {
    await until('the run is parked', async () => recorded.length === times && attributeOf(run, 'ErrorCode'));
  }

  async function refusalOf(answer: Promise<unknown>): Promise<unknown> {
    const error: unknown = await answer.catch((thrown: unknown) => thrown);
    expect(error).instanceOf(WorkflowUpdateFailedError);
    return error instanceof WorkflowUpdateFailedError ? error.cause : undefined;
  }

  it('waits, and says for what', async () => {
    const { activities, calls, parked } = stuckIngestion(refusedKey());
    await ingest(activities, async (run) => {
      await untilParked(run, parked);
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
      expect(calls).not.include('recordFailure');
      await run.terminate();
    });
  });

  it('goes on with the step that failed when it is retried', async () => {
    const { activities, calls, parked } = stuckIngestion(refusedKey());
    await ingest(activities, async (run) => {
      await untilParked(run, parked);
      await run.executeUpdate(retryUpdateName);
      expect(calls).include('recordResumed');
      expect(await run.result()).deep.equal({ chunks: 3 });
      expect(calls).deep.equal([
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
  });

  it('is parked again when nothing was mended', async () => {
    const { activities, parked } = stuckIngestion(refusedKey(), refusedKey());
    await ingest(activities, async (run) => {
      await untilParked(run, parked);
      await run.executeUpdate(retryUpdateName);
      await untilParked(run, parked, 2);
      await run.executeUpdate(retryUpdateName);
      expect(await run.result()).deep.equal({ chunks: 3 });
    });
  });

  it('ends as failed when it is skipped', async () => {
    const { activities, parked, failed } = stuckIngestion(refusedKey());
    await ingest(activities, async (run) => {
      await untilParked(run, parked);
      await run.executeUpdate(skipUpdateName);
      expect(await failureOf(run))
        .instanceOf(ApplicationFailure)
        .property('type', 'skipped');
      expect(failed).deep.equal([
        { code: 'skipped', message: 'It was parked with model_not_configured: The key was refused.' },
      ]);
      expect(await attributeOf(run, 'ErrorCode')).equal('skipped');
      expect(await inspect(run)).deep.equal({
        state: 'failed',
        error: { code: 'skipped', message: 'It was parked with model_not_configured: The key was refused.' },
      });
    });
  });

  it('can be cancelled', async () => {
    const { activities, calls, parked } = stuckIngestion(refusedKey());
    await ingest(activities, async (run) => {
      await untilParked(run, parked);
      await run.cancel();
      expect(await failureOf(run)).instanceOf(CancelledFailure);
      expect(calls.at(-1)).equal('recordCancellation');
    });
  });

  it('is not moved while it runs', async () => {
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const { activities } = stubIngestion({
      embedChunks: async () => {
        await gate;
        return { chunksEmbedded: 3, chunksLeft: 0 };
      },
    });
    await ingest(activities, async (run) => {
      for (const update of [retryUpdateName, skipUpdateName]) {
        expect(await refusalOf(run.executeUpdate(update))).property('type', 'job_not_parked');
      }
      open();
      expect(await run.result()).deep.equal({ chunks: 3 });
    });
  });

  it('is moved once, however many say so', async () => {
    const { activities, parked } = stuckIngestion(refusedKey());
    await ingest(activities, async (run) => {
      await untilParked(run, parked);
      const answers = await Promise.allSettled([
        run.executeUpdate(retryUpdateName),
        run.executeUpdate(skipUpdateName),
        run.executeUpdate(retryUpdateName),
      ]);
      expect(answers.filter(({ status }) => status === 'fulfilled')).length(1);
      await run.result().catch(() => undefined);
    });
  });

  it('waits as well when its step has used up its attempts, however long the first had to wait', async () => {
    const { activities, calls, parked } = stuckIngestion(
      ...Array.from({ length: 2 }, () => appError('model_unavailable')),
    );
    await ingest(activities, async (run) => {
      await until('the step has failed', async () => calls.includes('embedChunks'));
      const { events } = await run.fetchHistory();
      const [step] = events?.flatMap((event) => event.activityTaskScheduledEventAttributes ?? []).slice(-1) ?? [];
      expect(Number(step?.scheduleToCloseTimeout?.seconds ?? 0)).equal(0);
      expect(step?.retryPolicy?.maximumAttempts).equal(1_440);
      // A day has no place in a test.
      await temporal.client.workflowService.updateActivityOptions({
        namespace: temporal.client.options.namespace,
        execution: { workflowId: run.workflowId },
        type: 'embedChunks',
        activityOptions: { retryPolicy: { maximumAttempts: 2 } },
        updateMask: { paths: ['retry_policy.maximum_attempts'] },
      });
      await untilParked(run, parked);
      expect(parked).deep.equal([
        { code: 'model_unavailable', message: 'The model service is not reachable or overloaded' },
      ]);
      await run.executeUpdate(retryUpdateName);
      expect(await run.result()).deep.equal({ chunks: 3 });
    });
  });
});
