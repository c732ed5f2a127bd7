// `npm run bench:import` (P10) measures the overhead of the workflow runs of an import of 500 files.
import { setTimeout as delay } from 'node:timers/promises';
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import type { ConnectorActivities } from '../activities/connectors.ts';
import type { ImportCounts } from '../src/contracts/connectors.ts';
import { importWorkflowId } from '../src/contracts/workflow-ids.ts';
import { createTemporalConnection } from '../src/temporal/connection.ts';
import { buildWorkflowBundle } from '../workers/bundle.ts';
import { startProduct } from './measured-product.ts';
import { report } from './report.ts';

const files = 500;
const goals = { cpuMs: 45, payloadBytes: 64 * 1024, events: 10_000 };
const taskQueue = 'bench-import';
const idleMs = 10_000;

Runtime.install({ logger: new DefaultLogger('WARN') });
const product = await startProduct();
try {
  const address = product.environment.TEMPORAL_ADDRESS ?? '';
  const connection = await NativeConnection.connect({ address });
  const temporal = createTemporalConnection({ address, namespace: 'default', callTimeoutMs: 60_000 });
  const bundle = await buildWorkflowBundle();

  /** CPU time of Temporal and of this process, which runs the worker. */
  async function cpuOf<Result>(work: () => Promise<Result>) {
    const [engineMs, own, startMs] = [await product.cpuMs('temporal'), process.cpuUsage(), performance.now()];
    const result = await work();
    const { user, system } = process.cpuUsage(own);
    return {
      result,
      seconds: (performance.now() - startMs) / 1_000,
      engineMs: (await product.cpuMs('temporal')) - engineMs,
      workerMs: (user + system) / 1_000,
    };
  }

  /**
   * Imports the files.
   * @returns the run id of the first history, which has the files; after continue-as-new another history has their end
   */
  async function importFiles(runId: string): Promise<string> {
    const worker = await Worker.create({
      connection,
      taskQueue,
      workflowBundle: bundle,
      activities: instantActivities(),
    });
    return worker.runUntil(async () => {
      const run = await temporal.client.workflow.start('importFromConnector', {
        taskQueue,
        workflowId: importWorkflowId(runId),
        args: [{ orgId: 'bench', connectionId: 'bench', runId }],
      });
      await run.result();
      return run.firstExecutionRunId;
    });
  }

  await importFiles('warm');
  const idle = await cpuOf(() => delay(idleMs));
  const { result: historyId, seconds, engineMs, workerMs } = await cpuOf(() => importFiles('measured'));
  const ofFile = (ms: number) => `${(ms / files).toFixed(1)} ms`;
  const measured = temporal.client.workflow.getHandle(importWorkflowId('measured'), historyId);
  const { events = [] } = await measured.fetchHistory();
  const payloads = [...JSON.stringify(events).matchAll(/"data":"([^"]*)"/g)].map(([, data = '']) => data.length * 0.75);
  const what = `import of ${files} files`;
  const cpuMs = (engineMs + workerMs) / files;
  report({
    goal: 'P10',
    what: `${what}: CPU of Temporal and worker, a file`,
    unit: 'ms',
    rounds: cpuMs,
    atMost: goals.cpuMs,
  });
  report({ goal: 'P10', what: `${what}: history`, unit: 'events', rounds: events?.length ?? 0, atMost: goals.events });
  report({
    ...{ goal: 'P10', what: `${what}: largest payload`, unit: 'bytes' },
    ...{ rounds: Math.max(0, ...payloads), atMost: goals.payloadBytes },
  });
  console.log(
    [
      `P10: an import of ${files} files whose steps do nothing, each in a run of its own`,
      '',
      '| | Measured | Goal |',
      '|---|---|---|',
      `| CPU of engine and worker, a file | ${ofFile(engineMs + workerMs)} | at most ${goals.cpuMs} ms |`,
      `| of it the engine's | ${ofFile(engineMs)} | |`,
      `| of it what the engine takes in that time with nothing to do | ${ofFile((idle.engineMs / idle.seconds) * seconds)} | |`,
      `| the history of the import | ${events?.length} events | below ${goals.events} |`,
      `| its largest payload | ${Math.max(0, ...payloads).toFixed(0)} bytes | at most ${goals.payloadBytes} |`,
      `| all of it | ${seconds.toFixed(1)} s | |`,
    ].join('\n'),
  );
  await temporal.close();
  await connection.close();
} finally {
  await product.stop();
}

function instantActivities(): ConnectorActivities {
  const added = new Set<number>();
  const counts = (): ImportCounts => {
    return { total: files, added: added.size, updated: 0, unchanged: 0, deleted: 0, failed: 0 };
  };
  return {
    queueSyncOfConnection: async ({ connectionId }) => ({ jobId: `sync-${connectionId}`, reason: 'scheduled' }),
    beginImport: async () => undefined,
    listFiles: async () => ({ counts: counts(), isMore: false }),
    pendingFiles: async () => {
      const numbers = Array.from({ length: files }, (_, index) => index + 1).filter((n) => !added.has(n));
      return { numbers: numbers.slice(0, 500), counts: counts() };
    },
    fetchFile: async ({ n }) => {
      added.add(n);
      return { status: 'added', code: null };
    },
    deleteMissing: async () => ({ counts: counts(), isMore: false, mustListAgain: false }),
    finishImport: async () => counts(),
    recordFileFailure: async ({ n, error }) => {
      throw new Error(`File ${n} of the measured import failed: ${error.code}.`);
    },
    recordImportParked: async () => undefined,
    recordImportResumed: async () => undefined,
    recordImportFailure: async () => undefined,
    recordImportCancellation: async () => undefined,
  };
}
