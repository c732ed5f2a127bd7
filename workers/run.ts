import { setTimeout as delay } from 'node:timers/promises';
import { NativeConnection, Worker } from '@temporalio/worker';
import { mapErrors, recordRetriedErrors } from '#activities/interceptors/errors.ts';
import { injectFaults } from '#activities/interceptors/faults.ts';
import { observeActivities } from '#activities/interceptors/telemetry.ts';
import type { Container } from '#src/container.ts';
import type { TaskQueue } from '#src/contracts/task-queues.ts';
import { connectionOptions, type TemporalConnection } from '#src/temporal/connection.ts';
import { dataConverter } from '#src/temporal/data-converter.ts';
import { registerSearchAttributes } from '#src/temporal/search-attributes.ts';
import { scheduleStoreAudits } from '#src/temporal/store-audits.ts';
import { deleteStrayFolders } from '#src/temporary-folders.ts';
import { alignmentWorker } from './alignment.ts';
import { anchoringWorker } from './anchoring.ts';
import { workflowBundle } from './bundle.ts';
import { connectorsWorker } from './connectors.ts';
import { deletionWorker } from './deletion.ts';
import { erasureWorker } from './erasure.ts';
import { evaluationWorker } from './evaluation.ts';
import { exportsWorker } from './exports.ts';
import { ingestionWorker } from './ingestion.ts';
import { previewsWorker } from './previews.ts';
import type { QueueWorker } from './queue-worker.ts';
import { reembeddingWorker } from './reembedding.ts';
import { storeAuditWorker } from './store-audit.ts';
import { aside, daily, dailyInParts, everyMinute, hourly, startSweeper } from './sweeper.ts';
import { traceSinks } from './trace-sinks.ts';
import { becomeFirstVersion, versioningOptions, workerVersion } from './versioning.ts';

const CONNECT_INTERVAL_MS = 1_000;

export type RunningWorkers = {
  /** Settles once all workers poll, or with `finished`. */
  polling: Promise<void>;
  /** Settles when all workers have ended: rejects when one did so on its own. */
  finished: Promise<void>;
  /** Whether all workers poll, and none is about to end. */
  isReady(): boolean;
  /** Takes no more tasks, lets those that run end for 20 seconds, then interrupts them. */
  shutdown(): Promise<void>;
};

/**
 * Starts the sweeper and a worker for each of the process' task queues. The workers wait for Temporal to be there; the
 * sweeper does not, and is the same in every process: each sweep bears others beside it.
 */
export function startWorkers(container: Container): RunningWorkers {
  const stopSweeper = startSweeps(container);
  const workers = startQueueWorkers(container, container.config.workerQueues);
  const finished = workers.finished.finally(stopSweeper);
  // Callers that await `finished` see the failure; others need not.
  finished.catch(() => undefined);
  return {
    ...workers,
    finished,
    shutdown: () => {
      void workers.shutdown();
      return finished;
    },
  };
}

/** Starts the sweeper alone. @returns stops it, once the sweep that is under way has ended */
export function startSweeps(container: Container): () => Promise<void> {
  const { jobs, chat, alignment, sessions, documents, embeddings, chunkContexts, ingestion, erasure, vectors } =
    container;
  const { evaluations, blobs, originals, idempotency, rateLimiters, consents, temporal, logger } = container;
  const { connectionSyncs, importSteps, sso, exports } = container;
  return startSweeper(
    [
      { name: 'close expired rounds', run: chat.closeExpiredRounds },
      { name: 'forget events of answers', run: everyMinute(chat.forgetEvents) },
      { name: 'requeue overdue chats', run: alignment.requeueOverdue },
      { name: 'set up the engine', run: aside(everyMinute(engineSetUp(temporal))) },
      { name: 'dispatch jobs', run: jobs.dispatchPending },
      { name: 'reconcile jobs', run: jobs.reconcileOpen },
      { name: 'publish changed documents', run: aside(documents.publishOutdated) },
      { name: 'forget expired sessions', run: daily(sessions.deleteExpired) },
      { name: 'forget old answers', run: everyMinute(idempotency.forgetExpired) },
      { name: 'forget consents that never came', run: everyMinute(consents.deleteExpired) },
      { name: 'forget sign-ins that never came', run: everyMinute(sso.deleteExpired) },
      { name: 'forget windows of rate limits', run: everyMinute(rateLimiters.shared.forgetExpired) },
      { name: 'release originals', run: aside(everyMinute(originals.sweepExpired)) },
      { name: 'delete stray folders', run: aside(daily(() => deleteStrayFolders(container.tempDir))) },
      { name: 'delete stray uploads', run: aside(hourly(blobs.deleteStrays)) },
      { name: 'forget unused embeddings', run: dailyInParts(embeddings.sweepUnused) },
      { name: 'forget unused situations', run: dailyInParts(chunkContexts.sweepUnused) },
      { name: 'forget unused conversions', run: dailyInParts(ingestion.sweepUnusedConversions) },
      { name: 'bring schedules in line', run: aside(connectionSyncs.applyOutdated) },
      { name: 'renew schedules', run: daily(connectionSyncs.renewAll) },
      { name: 'forget old imports', run: dailyInParts(importSteps.forgetOld) },
      { name: 'forget evaluations without a draft', run: daily(evaluations.deleteOldAdhocRuns) },
      { name: 'delete expired exports', run: aside(everyMinute(exports.deleteExpired)) },
      { name: 'erase what came late', run: daily(erasure.eraseLate) },
      { name: 'maintain the vector store', run: aside(daily(vectors.maintain)) },
    ],
    logger,
    (sweep) => container.telemetry.metrics.count('acs_sweep_failures_total', { sweep }),
  );
}

/** Starts a worker for each of these queues, without the sweeper. */
export function startQueueWorkers(container: Container, queues: readonly TaskQueue[]): RunningWorkers {
  const stopping = new AbortController();
  const polling = Promise.withResolvers<void>();
  let isPolling = false;
  const finished = run(container, queues, stopping.signal, () => {
    isPolling = true;
    polling.resolve();
  }).finally(() => {
    isPolling = false;
  });
  finished.then(polling.resolve, polling.reject);
  // Callers that await `polling` see the failure; others need not.
  polling.promise.catch(() => undefined);
  return {
    polling: polling.promise,
    finished,
    isReady: () => isPolling && !stopping.signal.aborted,
    shutdown: () => {
      stopping.abort();
      return finished;
    },
  };
}

async function run(
  container: Container,
  queues: readonly TaskQueue[],
  stop: AbortSignal,
  onPolling: () => void,
): Promise<void> {
  const { temporal, logger } = container;
  const connection = await connect(container, stop);
  if (connection === null) return;
  try {
    const version = await workerVersion(container.config.temporal);
    const workers = await createWorkers({ container, queues, connection, version });
    const ended = runAll(workers, stop);
    const first = becomeFirstVersion(temporal, version, { stop, logger });
    logger.info({ queues }, 'workers are polling');
    if (container.renderer === null) logger.info('there is no office program: no previews, and no .ppt is read');
    onPolling();
    await Promise.all([ended, first]);
  } finally {
    await connection.close();
  }
}

/** Again and again: an engine that comes back without its data refuses every start until it knows what we search by. */
function engineSetUp(temporal: TemporalConnection): () => Promise<void> {
  let isUpToDate = false;
  return async () => {
    await registerSearchAttributes(temporal);
    await scheduleStoreAudits(temporal, { isUpToDate });
    isUpToDate = true;
  };
}

async function createWorkers(options: {
  container: Container;
  queues: readonly TaskQueue[];
  connection: NativeConnection;
  version: Awaited<ReturnType<typeof workerVersion>>;
}): Promise<Worker[]> {
  const { container, queues, connection, version } = options;
  const { config, telemetry } = container;
  const { faults, temporal } = config;
  const converter = dataConverter(temporal.payloadKeys);
  const bundle = await workflowBundle(converter);
  const interceptors = [
    observeActivities(telemetry),
    recordRetriedErrors(container.jobs),
    mapErrors,
    ...(faults.length === 0 ? [] : [injectFaults(faults)]),
  ];
  const createWorker = (queue: QueueWorker) =>
    Worker.create({
      connection,
      namespace: temporal.namespace,
      taskQueue: queue.taskQueue,
      workflowBundle: bundle,
      dataConverter: converter,
      ...versioningOptions(version, queue.taskQueue),
      activities: queue.activities,
      maxConcurrentActivityTaskExecutions: queue.maxConcurrentActivities,
      interceptors: { activity: interceptors },
      sinks: traceSinks(telemetry),
      // Beats go out as often as steps make them, so that one that is lost does no harm.
      maxHeartbeatThrottleInterval: '3 seconds',
      shutdownGraceTime: '20 seconds',
      shutdownForceTime: '30 seconds',
    });
  return Promise.all(
    [
      ingestionWorker(container),
      alignmentWorker(container),
      anchoringWorker(container),
      previewsWorker(container),
      deletionWorker(container),
      reembeddingWorker(container),
      erasureWorker(container),
      exportsWorker(container),
      evaluationWorker(container),
      connectorsWorker(container),
      storeAuditWorker(container),
    ]
      .filter(({ taskQueue }) => queues.includes(taskQueue))
      .map(createWorker),
  );
}

/** One worker that ends takes the others with it: a process that only works in part looks healthy and is not. */
async function runAll(workers: readonly Worker[], stop: AbortSignal): Promise<void> {
  const stopWorkers = () => {
    for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown();
  };
  const runs = workers.map((worker) => worker.run().finally(stopWorkers));
  stop.addEventListener('abort', stopWorkers);
  if (stop.aborted) stopWorkers();
  await Promise.allSettled(runs);
  await Promise.all(runs);
}

/** Null when it is told to stop before Temporal was there. */
async function connect({ config, logger, temporal }: Container, stop: AbortSignal): Promise<NativeConnection | null> {
  while (!stop.aborted) {
    try {
      await registerSearchAttributes(temporal);
      return await NativeConnection.connect(connectionOptions(config.temporal));
    } catch (error) {
      logger.warn({ err: error }, 'waiting for Temporal');
      await delay(CONNECT_INTERVAL_MS, undefined, { signal: stop }).catch(() => undefined);
    }
  }
  return null;
}
