import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import type { WorkflowClientInterceptor } from '@temporalio/client';
import type { Container } from '#src/container.ts';
import { activityQueues, type TaskQueue, taskQueues, type WorkflowType } from '#src/contracts/workflow-runs.ts';
import { type RunningWorkers, startQueueWorkers, startSweeps } from '#workers/run.ts';

/** Delay of Temporal's answers to starts. A run may then end before the request that started it (`npm run test:stress`). */
const lateMs = Number(process.env.TEST_LATE_STARTS_MS ?? 0);

/** By namespace, what starts the worker of a queue. */
const demands = new Map<string, (queue: TaskQueue) => void>();

/**
 * Starts the sweeper, and the worker of a queue when a container of this process first starts a run, or creates a
 * schedule, on it: most tests need two or three of the twelve workers, and each takes 75 ms of CPU time and 10 MB. Runs
 * that another process starts, or that are queued already, start none.
 */
export function startWorkersOnDemand(container: Container): Pick<RunningWorkers, 'shutdown'> {
  const { temporal, workerQueues } = container.config;
  if (demands.has(temporal.namespace)) throw new Error(`Another stack has the workers of ${temporal.namespace}.`);
  const started = new Map<TaskQueue, RunningWorkers>();
  // Not in the context of the request that happens to come first, with its deadline for calls of Temporal.
  const outside = AsyncLocalStorage.snapshot();
  const stopSweeps = startSweeps(container);
  demands.set(temporal.namespace, (queue) => {
    if (started.has(queue) || !workerQueues.includes(queue)) return;
    const workers = outside(() => startQueueWorkers(container, [queue]));
    started.set(queue, workers);
    workers.polling.catch((cause: unknown) => {
      // An unhandled rejection fails the test at once, which would wait for this worker until it times out.
      throw new Error(`The worker of ${queue} has ended.`, { cause });
    });
  });
  return {
    async shutdown() {
      demands.delete(temporal.namespace);
      const ends = await Promise.allSettled([...started.values()].map((workers) => workers.shutdown()));
      await stopSweeps();
      for (const end of ends) if (end.status === 'rejected') throw end.reason;
    },
  };
}

/** Lets the runs and schedules of this container start their workers. */
export function announceStarts({ temporal, config }: Container): void {
  const announce = (workflowType: string) => {
    const demand = demands.get(config.temporal.namespace);
    for (const queue of [taskQueues.workflows, activityQueues[workflowType as WorkflowType]]) demand?.(queue);
  };
  async function announced<Started>(workflowType: string, start: () => Promise<Started>): Promise<Started> {
    announce(workflowType);
    return start().finally(() => delay(lateMs));
  }
  const { workflow, schedule } = temporal.client;
  // A list, because the product adds its own.
  (workflow.options.interceptors as WorkflowClientInterceptor[]).push({
    startWithDetails: (input, next) => announced(input.workflowType, () => next(input)),
    signalWithStart: (input, next) => announced(input.workflowType, () => next(input)),
  });
  schedule.options.interceptors.push({
    create(input, next) {
      // Each stack has the schedule of store audits, and no test waits for its next run.
      const { workflowType } = input.options.action;
      if (workflowType !== 'auditStores') announce(workflowType);
      return next(input);
    },
  });
}
