import { setTimeout as delay } from 'node:timers/promises';
import { NativeConnection, Worker } from '@temporalio/worker';
import { mapErrors } from '#activities/interceptors/error-mapping.ts';
import type { Container } from '#src/container.ts';
import { registerSearchAttributes } from '#src/temporal/search-attributes.ts';
import { alignmentWorker } from './alignment.ts';
import { workflowBundle } from './bundle.ts';
import { ingestionWorker } from './ingestion.ts';
import type { QueueWorker } from './queue-worker.ts';
import { startSweeper } from './sweeper.ts';

const CONNECT_INTERVAL_MS = 1_000;

export type RunningWorkers = {
  /** Settles when all workers have ended: rejects when one did so on its own. */
  finished: Promise<void>;
  /** Takes no more tasks, lets those that run end for 20 seconds, then interrupts them. */
  shutdown(): Promise<void>;
};

/** Starts a worker for each task queue, and the sweeper, in this process. Waits for Temporal to be there. */
export async function startWorkers(container: Container): Promise<RunningWorkers> {
  const { config, logger, jobs, chat, alignment } = container;
  const connection = await connect(container);
  const bundle = await workflowBundle();

  const createWorker = (queue: QueueWorker) =>
    Worker.create({
      connection,
      namespace: config.temporal.namespace,
      taskQueue: queue.taskQueue,
      workflowBundle: bundle,
      activities: queue.activities,
      maxConcurrentActivityTaskExecutions: queue.maxConcurrentActivities,
      interceptors: { activity: [mapErrors] },
      // Beats go out as often as steps make them, so that one that is lost does no harm.
      maxHeartbeatThrottleInterval: '3 seconds',
      shutdownGraceTime: '20 seconds',
      shutdownForceTime: '30 seconds',
    });
  const workers = await Promise.all([ingestionWorker(container), alignmentWorker(container)].map(createWorker));

  const stopSweeper = startSweeper(
    [
      { name: 'close expired rounds', run: chat.closeExpiredRounds },
      { name: 'requeue overdue chats', run: alignment.requeueOverdue },
      { name: 'dispatch jobs', run: jobs.dispatchPending },
      { name: 'reconcile jobs', run: jobs.reconcileOpen },
    ],
    logger,
  );

  const stopWorkers = () => {
    for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown();
  };
  const finished = runAll(workers, stopWorkers).finally(async () => {
    await stopSweeper();
    await connection.close();
  });

  return {
    finished,
    shutdown: () => {
      stopWorkers();
      return finished;
    },
  };
}

/** One worker that ends takes the others with it: a process that only works in part looks healthy and is not. */
async function runAll(workers: readonly Worker[], stop: () => void): Promise<void> {
  const runs = workers.map((worker) => worker.run().finally(stop));
  await Promise.allSettled(runs);
  await Promise.all(runs);
}

async function connect({ config, logger, temporal }: Container): Promise<NativeConnection> {
  for (;;) {
    try {
      await registerSearchAttributes(temporal);
      return await NativeConnection.connect({ address: config.temporal.address });
    } catch (error) {
      logger.warn({ err: error }, 'waiting for Temporal');
      await delay(CONNECT_INTERVAL_MS);
    }
  }
}
