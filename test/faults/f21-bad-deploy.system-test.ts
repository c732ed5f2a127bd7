import { readFile } from 'node:fs/promises';
import type { WorkflowHandle } from '@temporalio/client';
import type { WorkflowBundleOption } from '@temporalio/worker';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { retryUpdateName } from '#src/contracts/workflow-runs.ts';
import { appError } from '#src/errors.ts';
import { createOrchestrator } from '#src/temporal/orchestrator.ts';
import { testServices } from '#test/support/services.ts';
import { stubIngestion } from '#test/support/stub-activities.ts';
import { connectToTemporal } from '#test/support/temporal-client.ts';
import { type TestWorkers, testWorkers } from '#test/support/test-workers.ts';
import { until } from '#test/support/until.ts';
import { attributeOf } from '#test/support/workflow-run.ts';
import { buildWorkflowBundle } from '#workers/bundle.ts';

const runs = 5;

describe('F21: a version that cannot replay what has begun, and the way back', function () {
  this.timeout(90_000);
  let temporal: TestWorkers;

  before(async () => {
    temporal = await testWorkers();
  });
  after(() => temporal.close());

  /** The workflows of today, but for the name of a step: what an edit without `patched` does. */
  async function brokenBundle(): Promise<WorkflowBundleOption> {
    const good = await buildWorkflowBundle();
    const code = 'code' in good ? good.code : await readFile(good.codePath, 'utf8');
    const broken = code.replaceAll('chunkDocument', 'cutDocument');
    expect(broken).not.equal(code);
    return { code: broken };
  }

  it('leaves runs stuck and says so, and they go on after the way back with nothing lost and nothing done twice', async () => {
    let isMended = false;
    const { activities, names } = stubIngestion({
      embedChunks: async () => {
        if (!isMended) throw appError('model_not_configured');
        return { chunksEmbedded: 3, chunksLeft: 0 };
      },
    });
    const taskQueue = `test-${uuidv7()}`;
    const connection = connectToTemporal({ address: testServices().temporalAddress, namespace: 'default' });
    const orchestrator = createOrchestrator(connection, { uiUrl: null });
    const begun: WorkflowHandle[] = [];
    try {
      await temporal.withWorker(
        activities,
        async () => {
          for (let index = 0; index < runs; index += 1) {
            const args = [{ orgId: 'org', documentId: `document-${index}`, generation: 1 }];
            const workflowId = `test-${uuidv7()}`;
            begun.push(await temporal.client.workflow.start('ingestDocument', { workflowId, taskQueue, args }));
          }
          for (const run of begun) {
            await until('it is parked', async () => (await attributeOf(run, 'ErrorCode')) !== undefined);
          }
        },
        { taskQueue },
      );
      isMended = true;

      await temporal.withWorker(
        activities,
        async () => {
          // Nobody answers: what would answer is what cannot go on.
          for (const run of begun) void run.executeUpdate(retryUpdateName).catch(() => undefined);
          for (const run of begun) {
            await until('it is stuck', async () => {
              const { raw } = await run.describe();
              return (raw.pendingWorkflowTask?.attempt ?? 0) > 1;
            });
            expect(await orchestrator.describe(run.workflowId)).equal('open');
          }
          expect(names).not.to.include('activateGeneration');
        },
        { taskQueue, workflowBundle: await brokenBundle() },
      );

      await temporal.withWorker(activities, () => Promise.all(begun.map((run) => run.result())).then(() => undefined), {
        taskQueue,
      });
      for (const step of ['parseDocument', 'convertDocument', 'chunkDocument', 'activateGeneration']) {
        expect(
          names.filter((call) => call === step),
          step,
        ).to.have.length(runs);
      }
      for (const run of begun) expect(await orchestrator.describe(run.workflowId)).equal('completed');
    } finally {
      await connection.close();
    }
  });
});
