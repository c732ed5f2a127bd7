import type { WorkflowHandle } from '@temporalio/client';
import { expect } from 'chai';
import pino from 'pino';
import { v7 as uuidv7 } from 'uuid';
import { retryUpdateName } from '#src/contracts/workflow-runs.ts';
import { appError } from '#src/errors.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { createWorkerVersions } from '#src/temporal/worker-versions.ts';
import { runAdmin } from '#test/support/admin-command.ts';
import { requiredSettings, testServices } from '#test/support/services.ts';
import { startStack } from '#test/support/stack.ts';
import { stubActivities } from '#test/support/stub-activities.ts';
import { type TestWorkers, testWorkers } from '#test/support/test-workers.ts';
import { until } from '#test/support/until.ts';
import { untilRun } from '#test/support/until-job.ts';
import { promoteFirstWorkerVersion, workerVersioningOptions } from '#workers/versioning.ts';

describe('versions of the workers', () => {
  let temporal: TestWorkers;
  const deploymentName = `test-${uuidv7()}`;
  const taskQueue = deploymentName;

  before(async () => {
    temporal = await testWorkers();
  });
  after(() => temporal.close());

  const admin = (...args: string[]) =>
    runAdmin(
      {
        ...requiredSettings,
        DATA_DIR: '/nowhere/at/all',
        TEMPORAL_ADDRESS: testServices().temporalAddress,
        TEMPORAL_DEPLOYMENT_NAME: deploymentName,
      },
      ['worker-versions', ...args],
    );

  const versions = () => createWorkerVersions(temporal.temporal, deploymentName);

  async function roleOf(buildId: string): Promise<string | undefined> {
    const all = await versions().list();
    return all.find((version) => version.buildId === buildId)?.role;
  }

  /** Workers as workers/run.ts creates them. */
  async function withVersion(buildId: string, activities: object, use: () => Promise<void>): Promise<void> {
    const version = { deploymentName, buildId };
    const stopping = new AbortController();
    const options = { stop: stopping.signal, logger: pino({ level: 'silent' }) };
    const work = async () => {
      const first = promoteFirstWorkerVersion(temporal.temporal, version, options);
      await use().finally(() => stopping.abort());
      await first;
    };
    await temporal.withWorker(activities, work, { taskQueue, ...workerVersioningOptions(version) });
  }

  function start(workflow: 'evaluateVersion' | 'ingestDocument', args: object) {
    return temporal.client.workflow.start(workflow, { workflowId: `test-${uuidv7()}`, taskQueue, args: [args] });
  }

  async function versionOf(run: WorkflowHandle): Promise<string | undefined> {
    const { raw } = await run.describe();
    return raw.workflowExecutionInfo?.versioningInfo?.deploymentVersion?.buildId ?? undefined;
  }

  it('work in parallel: pinned runs stay on their version, other runs follow the version that was made current', async () => {
    const gate = Promise.withResolvers<void>();
    const stub = stubActivities({
      embedChunks: async ({ documentId }) => {
        if (documentId === 'parked' && stub.timesOf('recordResumed') === 0) throw appError('model_not_configured');
        return { chunksEmbedded: 3 };
      },
      scoreEvaluation: () => gate.promise,
    });
    const input = { orgId: 'org', documentId: 'document', generation: 1 };
    async function versionOfNewIngestion() {
      const run = await start('ingestDocument', input);
      await run.result();
      return versionOf(run);
    }
    const story = async () => {
      await until('v1 is the current version', async () => (await roleOf('v1')) === 'current');
      const pinned = await start('evaluateVersion', { orgId: 'org', runId: uuidv7() });
      const moving = await start('ingestDocument', { ...input, documentId: 'parked' });
      await stub.untilCalled('scoreEvaluation');
      await stub.untilCalled('recordParked');
      expect([await versionOf(pinned), await versionOf(moving)]).deep.equal(['v1', 'v1']);

      await withVersion('v2', stub.activities, async () => {
        await until('v2 is there', async () => (await roleOf('v2')) === 'other');
        expect(await versionOfNewIngestion()).equal('v1');
        expect((await admin('--ramp', 'v2', '--percent', '10')).stdout).include('v2  ramping: 10 % of the runs');
        const promoted = await admin('--promote', 'v2');
        expect(promoted).include({ code: 0, stderr: '' });
        expect(promoted.stdout)
          .include('v2  current: new runs, and runs that are not pinned')
          .include('v1  draining: runs are pinned to it');

        await moving.executeUpdate(retryUpdateName);
        await moving.result();
        expect(await versionOfNewIngestion()).equal('v2');
        gate.resolve();
        await pinned.result();
        expect([await versionOf(pinned), await versionOf(moving)]).deep.equal(['v1', 'v2']);

        await versions().promote('v1');
        expect(await roleOf('v1')).equal('current');
        expect(await versionOfNewIngestion()).equal('v1');
      });
    };
    // After a failure, no activity may wait forever, because it would keep the workers from stopping.
    await withVersion('v1', stub.activities, () => story().finally(gate.resolve));
  });

  it('cannot be made current without a running worker', async () => {
    const { code, stderr } = await admin('--promote', 'v9');
    expect(code).equal(1);
    expect(stderr).match(/^No runs were routed to version v9: [^\n]+\n$/);
    expect(await admin('--ramp', 'v2')).to.include({ code: 2 });
    expect((await admin('--promote', 'v1', '--percent', '5')).stderr).to.include('--ramp <build id> with --percent');
  });

  it('become current at once in a new installation, and readiness counts only workers of the current version', async () => {
    const own = await startStack({ TEMPORAL_DEPLOYMENT_NAME: 'acs' }, { workers: 'all' });
    try {
      await until('it is ready', async () => (await fetch(`${own.baseUrl}/readyz`)).status === 200);
      const ada = await own.signUp();
      const { body } = await ada.upload('/documents', { name: 'a.txt', content: 'Words.' }, 201);
      const jobId = fullDocumentSchema.parse(body).embedding_job_id ?? '';
      await untilRun(ada, jobId, 'succeeded');
      const { workflowService } = own.container.temporal.client;
      const { namespace } = own.config.temporal;
      await workflowService.setWorkerDeploymentCurrentVersion({ namespace, deploymentName: 'acs', buildId: '' });
      await until('no worker takes new runs', async () => !(await own.container.orchestrator.hasPollers()));
    } finally {
      await own.close();
    }
  });
});
