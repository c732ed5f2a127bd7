import { readFile } from 'node:fs/promises';
import type { WorkflowHandle } from '@temporalio/client';
import type { WorkflowBundleOption } from '@temporalio/worker';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { retryUpdateName } from '#src/contracts/workflow-runs.ts';
import { appError } from '#src/errors.ts';
import { createOrchestrator } from '#src/temporal/orchestrator.ts';
import { stubActivities as stubIngestion } from '#test/support/stub-activities.ts';
import { type TestWorkers, testWorkers } from '#test/support/test-workers.ts';
import { until } from '#test/support/until.ts';
import { attributeOf } from '#test/support/workflow-run.ts';
import { buildWorkflowBundle } from '#workers/bundle.ts';

const runs = 5;

describe('F21: a release whose workers cannot replay the open runs', function () {
  this.timeout(240_000);
  let temporal: TestWorkers;

  before(async () => {
    temporal = await testWorkers();
  });
  after(() => temporal.close());

  /** The current workflows with another name of a step, like an edit without `patched`. */
  async function brokenBundle(): Promise<WorkflowBundleOption> {
    const good = await buildWorkflowBundle();
    const code = 'code' in good ? good.code : await readFile(good.codePath, 'utf8');
    return { code: code.replaceAll('chunkDocument', 'cutDocument') };
  }

  it('leaves these runs open, and after its rollback they continue without losing or repeating work', async () => {
    let isMended = false;
    const { activities, names } = stubIngestion({
      embedChunks: async () => {
        if (!isMended) throw appError('model_not_configured');
        return { chunksEmbedded: 3, chunksLeft: 0 };
      },
    });
    // Without a cache, the next worker gets the tasks at once; each failed task waits longer than the one before.
    const options = { taskQueue: `test-${uuidv7()}`, maxCachedWorkflows: 0 };
    const { taskQueue } = options;
    const { describe: stateOf } = createOrchestrator(temporal.temporal, { uiUrl: null });
    const begun: WorkflowHandle[] = [];
    const begin = async () => {
      for (let index = 0; index < runs; index += 1) {
        const args = [{ orgId: 'org', documentId: `document-${index}`, generation: 1 }];
        const options = { workflowId: `test-${uuidv7()}`, taskQueue, args };
        begun.push(await temporal.client.workflow.start('ingestDocument', options));
      }
      for (const run of begun) {
        await until('it is parked', async () => (await attributeOf(run, 'ErrorCode')) !== undefined);
      }
    };
    await temporal.withWorker(activities, begin, options);
    isMended = true;

    const beStuck = async () => {
      // The updates are not answered, because the runs that would answer them are stuck.
      for (const run of begun) void run.executeUpdate(retryUpdateName).catch(() => undefined);
      for (const run of begun) {
        const attempt = async () => (await run.describe()).raw.pendingWorkflowTask?.attempt ?? 0;
        await until('it is stuck', async () => (await attempt()) > 1);
        expect(await stateOf(run.workflowId)).equal('open');
      }
      expect(names).not.include('activateGeneration');
    };
    await temporal.withWorker(activities, beStuck, { ...options, workflowBundle: await brokenBundle() });

    const finish = async () => {
      for (const run of begun) await run.result();
    };
    await temporal.withWorker(activities, finish, options);
    for (const step of ['parseDocument', 'convertDocument', 'chunkDocument', 'activateGeneration'] as const) {
      expect(names.filter((call) => call === step)).length(runs);
    }
    for (const run of begun) expect(await stateOf(run.workflowId)).equal('completed');
  });
});
