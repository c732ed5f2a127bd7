import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import { temporalServer } from '../../scripts/launchers/temporal.ts';
import { findFreePorts } from '../../scripts/supervisor/ports.ts';
import { openSupervisor } from '../../scripts/supervisor/supervisor.ts';
import type { IngestAtOnceResult, IngestDocumentInput } from '../../src/contracts/ingestion.ts';
import { taskQueues } from '../../src/contracts/workflow-runs.ts';
import { createTemporalConnection, registerSearchAttributes } from '../../src/temporal/connection.ts';
import { createOrchestrator } from '../../src/temporal/orchestrator.ts';
import { buildWorkflowBundle } from '../../workers/bundle.ts';
import { percentile, simulate } from './simulation.ts';

const burst = { key: 'burst', documents: 400 };
const others = { organizations: 19, documentsEach: 2 };
const slots = 4;
const activityMs = 20;

type Upload = { key: string; documentId: string };

/** Ingests the same backlog by the dev server, with the product's own starts and workflows, and by the simulation. */
export async function compareWithServer(): Promise<string[]> {
  Runtime.install({ logger: new DefaultLogger('WARN') });
  const uploads = createUploads();
  const row = (name: string, simulated: readonly string[], real: readonly string[]) =>
    `| ${name} | ${aheadOf(simulated)} | ${aheadOf(real)} |`;
  return [
    `| Burst documents that begin earlier, p50 / p95 | simulated | dev server |`,
    '|---|---|---|',
    row(
      'one key for all, which is FIFO',
      simulateOrder(uploads, 'fifo'),
      await ingestOnServer(uploads, { hasKeys: false }),
    ),
    row('a fairness key for each', simulateOrder(uploads, 'fair'), await ingestOnServer(uploads, { hasKeys: true })),
  ];
}

function createUploads(): Upload[] {
  const repeat = (key: string, count: number) => Array.from({ length: count }, () => key);
  const rounds = Array.from({ length: others.documentsEach }, () =>
    Array.from({ length: others.organizations }, (_, index) => `organization-${index}`),
  );
  const keys = [...repeat(burst.key, burst.documents), ...rounds.flat()];
  return keys.map((key, index) => ({ key, documentId: `${key}--${index}` }));
}

/** @returns the keys in the order in which their documents began */
function simulateOrder(uploads: readonly Upload[], kind: 'fifo' | 'fair'): string[] {
  const arrivals = uploads.map(({ key }) => ({ at: 0, key, priority: 2 }));
  const options = { slots, order: { kind }, serviceSeconds: () => activityMs / 1_000, seed: 1 };
  return simulate(arrivals, options).map(({ key }) => key);
}

async function ingestOnServer(uploads: readonly Upload[], { hasKeys }: { hasKeys: boolean }): Promise<string[]> {
  const dataDir = await mkdtemp(join(tmpdir(), 'bench-queues-'));
  const [port = 0, uiPort = 0] = await findFreePorts(2);
  const supervisor = await openSupervisor({ dataDir, log: (line) => console.error(line) });
  try {
    const toolsDir = process.env.TOOLS_DIR ?? '';
    await supervisor.start([temporalServer({ toolsDir, dataDir, port, uiPort })]);
    const address = `127.0.0.1:${port}`;
    const temporal = createTemporalConnection({ address, namespace: 'default', callTimeoutMs: 60_000 });
    await registerSearchAttributes(temporal);
    const orchestrator = createOrchestrator(temporal, { uiUrl: null });
    for (const { key, documentId } of uploads) {
      const orgId = hasKeys ? key : 'all';
      await orchestrator.start({
        workflowId: `ingest-${documentId}-1`,
        start: {
          workflow: 'ingestDocument',
          input: { orgId, documentId, generation: 1, isSmall: true },
          summary: 'A note',
          bulk: false,
        },
        startId: documentId,
        attempt: 1,
        attributes: { orgId, documentId },
        requestId: null,
      });
    }
    const connection = await NativeConnection.connect({ address });
    const begun: string[] = [];
    const ingestAtOnce = async ({ documentId }: IngestDocumentInput): Promise<IngestAtOnceResult> => {
      begun.push(documentId.slice(0, documentId.indexOf('--')));
      await delay(activityMs);
      return { converted: null, chunksTotal: 1, isDone: true };
    };
    const workflows = await Worker.create({
      connection,
      taskQueue: taskQueues.workflows,
      workflowBundle: await buildWorkflowBundle(),
    });
    await workflows.runUntil(async () => {
      // All documents wait in the queue before the worker of their activities starts.
      const waiting = async () =>
        (await orchestrator.backlog()).find(({ queue }) => queue === taskQueues.ingestion)?.count ?? 0;
      while ((await waiting()) < uploads.length) await delay(200);
      const worker = await Worker.create({
        connection,
        taskQueue: taskQueues.ingestion,
        activities: { ingestAtOnce },
        maxConcurrentActivityTaskExecutions: slots,
      });
      await worker.runUntil(async () => {
        while (begun.length < uploads.length) await delay(100);
      });
    });
    await connection.close();
    await temporal.close();
    return begun;
  } finally {
    await supervisor.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
}

/** How many documents of the burst began before each document of the others. */
function aheadOf(begun: readonly string[]): string {
  let ofBurst = 0;
  const ahead: number[] = [];
  for (const key of begun) {
    if (key === burst.key) ofBurst += 1;
    else ahead.push(ofBurst);
  }
  return `${percentile(ahead, 0.5)} / ${percentile(ahead, 0.95)}`;
}
