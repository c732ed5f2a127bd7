import { setTimeout as delay } from 'node:timers/promises';
import { NativeConnection, Worker } from '@temporalio/worker';
import { mapErrorsToTemporalFailures, recordRetriedErrors } from '#activities/interceptors/errors.ts';
import { injectFaults } from '#activities/interceptors/faults.ts';
import { observeActivities } from '#activities/interceptors/telemetry.ts';
import type { Container } from '#src/container.ts';
import { type TaskQueue, taskQueues } from '#src/contracts/workflow-runs.ts';
import {
  registerSearchAttributes,
  type TemporalConnection,
  temporalConnectionOptions,
} from '#src/temporal/connection.ts';
import { createTemporalDataConverter } from '#src/temporal/data-converter.ts';
import { scheduleCleanUps, scheduleStoreAudits } from '#src/temporal/schedules.ts';
import { deleteStaleTemporaryFolders } from '#src/temporary-folders.ts';
import { buildWorkflowBundle } from './bundle.ts';
import { createQueueWorkerOptions } from './queues.ts';
import { limitToOncePerDay, limitToOncePerMinute, skipWhileStillRunning, startSweeper } from './sweeper.ts';
import { createTraceSinks } from './telemetry.ts';
import { promoteFirstWorkerVersion, readWorkerVersion, workerVersioningOptions } from './versioning.ts';

const CONNECT_INTERVAL_MS = 1_000;

export type RunningWorkers = {
  polling: Promise<void>;
  finished: Promise<void>;
  isReady(): boolean;
  /** Stops taking tasks, and cancels activities that are still running after 20 seconds. */
  shutdown(): Promise<void>;
};

/**
 * Starts the sweeper and a worker for each task queue of this process. The workers wait until Temporal is reachable;
 * the sweeper does not. Every worker process runs all sweeps, so each sweep must tolerate concurrent runs of itself.
 */
export function startWorkers(container: Container): RunningWorkers {
  const stopSweeper = startSweeps(container);
  const workers = startQueueWorkers(container, container.config.workerQueues);
  const finished = workers.finished.finally(stopSweeper);
  // Prevents an unhandled rejection for callers that do not await `finished`.
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

/**
 * Starts the sweeper without Temporal workers. It runs what must run while Temporal is down, or what each process must do
 * for itself; the workflow `cleanUp` runs all other sweeps.
 * @returns a function that stops it after the running sweep
 */
export function startSweeps(container: Container): () => Promise<void> {
  const { jobs, chat, scoringRequests, documents, reindexing, originals, syncs, temporal, logger } = container;
  return startSweeper(
    [
      { name: 'close expired rounds', run: chat.closeExpiredRounds },
      { name: 'forget events of answers', run: limitToOncePerMinute(chat.forgetEvents) },
      { name: 'requeue overdue chats', run: scoringRequests.requeueOverdue },
      { name: 'set up the engine', run: skipWhileStillRunning(limitToOncePerMinute(temporalSetUp(temporal))) },
      { name: 'dispatch jobs', run: jobs.dispatchPending },
      { name: 'reconcile jobs', run: jobs.reconcileOpen },
      { name: 'publish changed documents', run: skipWhileStillRunning(documents.publishOutdated) },
      { name: 'index words again', run: skipWhileStillRunning(limitToOncePerMinute(reindexing.reindexOutdated)) },
      { name: 'release originals', run: skipWhileStillRunning(limitToOncePerMinute(originals.sweepExpired)) },
      {
        name: 'delete stray folders',
        run: skipWhileStillRunning(limitToOncePerDay(() => deleteStaleTemporaryFolders(container.tempDir))),
      },
      { name: 'bring schedules in line', run: skipWhileStillRunning(syncs.applyOutdated) },
      { name: 'renew schedules', run: limitToOncePerDay(syncs.renewSchedules) },
    ],
    logger,
    (sweep) => container.telemetry.metrics.count('acs_sweep_failures_total', { sweep }),
  );
}

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
  // Prevents an unhandled rejection for callers that do not await `polling`.
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
    const version = await readWorkerVersion(container.config.temporal);
    const workers = await createWorkers({ container, queues, connection, version });
    const ended = runAll(workers, stop);
    const first = promoteFirstWorkerVersion(temporal, version, { stop, logger });
    logger.info({ queues }, 'workers are polling');
    if (container.renderer === null)
      logger.info('neither LibreOffice nor Gotenberg is configured: previews and .ppt files are not supported');
    onPolling();
    await Promise.all([ended, first]);
  } finally {
    await connection.close();
  }
}

/** Sets up search attributes and schedules, repeatedly: a Temporal server may have lost its data. */
function temporalSetUp(temporal: TemporalConnection): () => Promise<void> {
  let isUpToDate = false;
  return async () => {
    await registerSearchAttributes(temporal);
    await scheduleStoreAudits(temporal, { isUpToDate });
    await scheduleCleanUps(temporal, { isUpToDate });
    isUpToDate = true;
  };
}

async function createWorkers(options: {
  container: Container;
  queues: readonly TaskQueue[];
  connection: NativeConnection;
  version: Awaited<ReturnType<typeof readWorkerVersion>>;
}): Promise<Worker[]> {
  const { container, queues, connection, version } = options;
  const { config, telemetry } = container;
  const { faults, temporal } = config;
  const converter = createTemporalDataConverter(temporal.payloadKeys);
  const bundle = await buildWorkflowBundle(converter);
  const interceptors = [
    observeActivities(telemetry),
    recordRetriedErrors(container.jobs),
    mapErrorsToTemporalFailures,
    ...(faults.length === 0 ? [] : [injectFaults(faults)]),
  ];
  const activitiesOf = new Map(createQueueWorkerOptions(container).map((options) => [options.taskQueue, options]));
  const withWorkflows = new Set<TaskQueue>([
    taskQueues.workflows,
    ...(await queuesWithRunsOfOlderReleases(container.temporal, queues)),
  ]);
  return Promise.all(
    queues.map((taskQueue) => {
      const own = activitiesOf.get(taskQueue);
      return Worker.create({
        connection,
        namespace: temporal.namespace,
        taskQueue,
        dataConverter: converter,
        ...workerVersioningOptions(version),
        ...(withWorkflows.has(taskQueue) && { workflowBundle: bundle, sinks: createTraceSinks(telemetry) }),
        ...(own && {
          activities: own.activities,
          maxConcurrentActivityTaskExecutions: own.maxConcurrentActivities,
          interceptors: { activity: interceptors },
        }),
        // Longest interval between heartbeats of the SDK: short enough that an activity survives the loss of one.
        maxHeartbeatThrottleInterval: '3 seconds',
        shutdownGraceTime: '20 seconds',
        shutdownForceTime: '30 seconds',
      });
    }),
  );
}

/** Older releases started all workflows on the queues of their activities, where their open runs end. */
async function queuesWithRunsOfOlderReleases(
  { client, call }: TemporalConnection,
  queues: readonly TaskQueue[],
): Promise<TaskQueue[]> {
  const counts = await Promise.all(
    queues.map(async (queue) => {
      const query = `TaskQueue = "${queue}" AND ExecutionStatus = "Running"`;
      return { queue, count: (await call(() => client.workflow.count(query))).count };
    }),
  );
  return counts.filter(({ count }) => count > 0).map(({ queue }) => queue);
}

/** If one worker stops, all others are stopped too: a process that serves only some queues would look healthy. */
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

async function connect({ config, logger, temporal }: Container, stop: AbortSignal): Promise<NativeConnection | null> {
  while (!stop.aborted) {
    try {
      await registerSearchAttributes(temporal);
      return await NativeConnection.connect(temporalConnectionOptions(config.temporal));
    } catch (error) {
      logger.warn({ err: error }, 'waiting for Temporal');
      await delay(CONNECT_INTERVAL_MS, undefined, { signal: stop }).catch(() => undefined);
    }
  }
  return null;
}
