import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { WorkflowHandle } from '@temporalio/client';
import { expect } from 'chai';
import pino from 'pino';
import { v7 as uuidv7 } from 'uuid';
import { retryUpdateName, type TaskQueue, taskQueues } from '#src/contracts/workflow-runs.ts';
import { appError } from '#src/errors.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import type { TemporalConnection } from '#src/temporal/connection.ts';
import { createWorkerVersions } from '#src/temporal/worker-versions.ts';
import { runAdmin } from '#test/support/admin-command.ts';
import { requiredSettings } from '#test/support/required-settings.ts';
import { testServices } from '#test/support/services.ts';
import { startStack } from '#test/support/stack.ts';
import { stubEvaluation, stubIngestion } from '#test/support/stub-activities.ts';
import { connectToTemporal } from '#test/support/temporal-client.ts';
import { type TestWorkers, testWorkers } from '#test/support/test-workers.ts';
import { until } from '#test/support/until.ts';
import { untilRun } from '#test/support/until-job.ts';
import { promoteFirstWorkerVersion, workerVersioningOptions } from '#workers/versioning.ts';
import { temporalProgram } from '../../scripts/launchers/temporal.ts';

describe('worker versions', () => {
  let temporal: TestWorkers;
  let connection: TemporalConnection;
  const deploymentName = `test-${uuidv7()}`;
  const of = (version: { deploymentName: string; buildId: string }, queue: TaskQueue) => ({
    taskQueue: `${version.deploymentName}-${queue}`,
    ...workerVersioningOptions(version, queue),
  });

  before(async () => {
    temporal = await testWorkers();
    connection = connectToTemporal({ address: testServices().temporalAddress, namespace: 'default' });
  });
  after(async () => {
    await connection.close();
    await temporal.close();
  });

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

  async function roleOf(buildId: string, deployment = deploymentName): Promise<string | undefined> {
    const all = await createWorkerVersions(connection, deployment).list();
    return all.find((version) => version.buildId === buildId)?.role;
  }

  /** Workers as workers/run.ts creates them. */
  async function withVersion(
    buildId: string,
    activities: object,
    use: () => Promise<void>,
    deployment = deploymentName,
  ): Promise<void> {
    const version = { deploymentName: deployment, buildId };
    const stopping = new AbortController();
    const work = async () => {
      const first = promoteFirstWorkerVersion(connection, version, {
        stop: stopping.signal,
        logger: pino({ level: 'silent' }),
      });
      await use().finally(() => stopping.abort());
      await first;
    };
    await temporal.withWorker(
      activities,
      () => temporal.withWorker(activities, work, of(version, taskQueues.ingestion)),
      of(version, taskQueues.evaluation),
    );
  }

  function start(workflow: 'evaluateVersion' | 'ingestDocument', args: object, deployment = deploymentName) {
    const queue = workflow === 'ingestDocument' ? taskQueues.ingestion : taskQueues.evaluation;
    const taskQueue = `${deployment}-${queue}`;
    return temporal.client.workflow.start(workflow, { workflowId: `test-${uuidv7()}`, taskQueue, args: [args] });
  }

  async function versionOf(run: WorkflowHandle): Promise<string | undefined> {
    const { raw } = await run.describe();
    return raw.workflowExecutionInfo?.versioningInfo?.deploymentVersion?.buildId ?? undefined;
  }

  /** Runs the Temporal CLI command of docs/operators.md that begins with these words, for this deployment. */
  async function asDocumented(words: string, deployment: string, buildId: string): Promise<void> {
    const docs = await readFile('docs/operators.md', 'utf8');
    const command = docs.split('`').find((code) => code.startsWith(`temporal ${words} `));
    if (command === undefined) throw new Error(`The docs have no command "temporal ${words}".`);
    const [, ...args] = (command.match(/'[^']*'|\S+/g) ?? []).map((word) =>
      word
        .replace(/^'|'$/g, '')
        .replace('agents:1.4.0', `${deployment}:${buildId}`)
        .replace(/^agents$/, deployment),
    );
    const at = ['--address', testServices().temporalAddress, '--namespace', 'default', '--yes'];
    const isolated = [...at, '--disable-config-file', '--disable-config-env'];
    await promisify(execFile)(temporalProgram(testServices().toolsDir), [...args, ...isolated]);
  }

  it('run in parallel: pinned runs stay, others follow the promoted version', async () => {
    const gate = Promise.withResolvers<void>();
    const judged = Promise.withResolvers<void>();
    const ingestion = stubIngestion({
      embedChunks: async ({ documentId }) => {
        if (documentId === 'parked' && !ingestion.names.includes('recordResumed'))
          throw appError('model_not_configured');
        return { chunksEmbedded: 3, chunksLeft: 0 };
      },
      recordResumed: async () => undefined,
    });
    const activities = {
      ...ingestion.activities,
      ...stubEvaluation(
        { cases: [] },
        {
          scoreEvaluation: async () => {
            judged.resolve();
            await gate.promise;
          },
        },
      ).activities,
    };
    const input = { orgId: 'org', documentId: 'document', generation: 1 };
    const story = async () => {
      await until('v1 is the current version', async () => (await roleOf('v1')) === 'current');
      const pinned = await start('evaluateVersion', { orgId: 'org', runId: uuidv7() });
      const moving = await start('ingestDocument', { ...input, documentId: 'parked' });
      await judged.promise;
      await ingestion.untilCalled('recordParked');
      expect([await versionOf(pinned), await versionOf(moving)]).deep.equal(['v1', 'v1']);

      await withVersion('v2', activities, async () => {
        await until('v2 is there', async () => (await roleOf('v2')) === 'other');
        const before = await start('ingestDocument', input);
        await before.result();
        expect(await versionOf(before)).equal('v1');

        const ramped = await admin('--ramp', 'v2', '--percent', '10');
        expect(ramped.stdout).to.include('v2  ramping: 10 % of the runs');
        const promoted = await admin('--promote', 'v2');
        expect(promoted).to.include({ code: 0, stderr: '' });
        expect(promoted.stdout).to.include('v2  current: new runs, and runs that are not pinned');
        expect(promoted.stdout).to.include('v1  draining: runs are pinned to it');

        await moving.executeUpdate(retryUpdateName);
        await moving.result();
        const next = await start('ingestDocument', input);
        await next.result();
        gate.resolve();
        await pinned.result();
        expect([await versionOf(pinned), await versionOf(moving), await versionOf(next)]).deep.equal([
          'v1',
          'v2',
          'v2',
        ]);

        await createWorkerVersions(connection, deploymentName).promote('v1');
        expect(await roleOf('v1')).equal('current');
        const last = await start('ingestDocument', input);
        await last.result();
        expect(await versionOf(last)).equal('v1');
      });
    };
    // After a failure, no activity may wait forever, because it would keep the workers from stopping.
    await withVersion('v1', activities, () => story().finally(gate.resolve));
  });

  it('release pinned runs with the Temporal CLI commands in the docs', async () => {
    const gate = Promise.withResolvers<void>();
    const judged = Promise.withResolvers<void>();
    const scoreEvaluation = async () => {
      judged.resolve();
      await gate.promise;
    };
    const { activities } = stubEvaluation({ cases: [] }, { scoreEvaluation });
    const all = { ...stubIngestion().activities, ...activities };
    const [deployment, one, two] = [`test-${uuidv7()}`, 'one', 'two'];
    const story = async () => {
      await until('the first is the current version', async () => (await roleOf(one, deployment)) === 'current');
      const pinned = await start('evaluateVersion', { orgId: 'org', runId: uuidv7() }, deployment);
      await Promise.race([judged.promise, pinned.result()]);
      const versions = createWorkerVersions(connection, deployment);
      await withVersion(
        two,
        all,
        async () => {
          await until('the second is there', async () => (await roleOf(two, deployment)) === 'other');
          await versions.promote(two);
          const query = `TemporalWorkerDeploymentVersion="${deployment}:${one}" AND ExecutionStatus="Running"`;
          const isFound = async () => (await temporal.client.workflow.count(query)).count === 1;
          await until('it is found', isFound);
          await asDocumented('workflow update-options', deployment, one);
          const isMoved = async () =>
            (await pinned.describe()).raw.workflowExecutionInfo?.versioningInfo?.versioningOverride;
          await until('the batch has come to it', isMoved);
          gate.resolve();
          await pinned.result();
          expect(await versionOf(pinned)).equal(two);
        },
        deployment,
      );
    };
    await withVersion(one, all, () => story().finally(gate.resolve), deployment);
    const taskQueue = `${deployment}-${taskQueues.evaluation}`;
    const withoutVersion = async () => {
      await asDocumented('worker deployment set-current-version', deployment, two);
      const run = await start('evaluateVersion', { orgId: 'org', runId: uuidv7() }, deployment);
      await run.result();
      expect(await versionOf(run)).equal(undefined);
    };
    await temporal.withWorker(all, withoutVersion, { taskQueue });
  });

  it('cannot be promoted without workers', async () => {
    const { code, stderr } = await admin('--promote', 'v9');
    expect(code).equal(1);
    expect(stderr).match(/^No runs were routed to version v9: [^\n]+\n$/);
    expect(await admin('--ramp', 'v2')).to.include({ code: 2 });
    expect((await admin('--promote', 'v1', '--percent', '5')).stderr).to.include('--ramp <build id> with --percent');
  });

  it('are promoted at once in a new installation, and readiness counts only the current one', async () => {
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
