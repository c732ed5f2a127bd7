import type { WorkflowClientInterceptor } from '@temporalio/client';
import type { Container } from '#src/container.ts';
import { type TaskQueue, taskQueues } from '#src/contracts/task-queues.ts';
import { type RunningWorkers, startQueueWorkers, startSweeps } from '#workers/run.ts';

/** For each namespace of this process, what starts the worker of a queue. */
const demands = new Map<string, (queue: TaskQueue) => void>();

/**
 * Starts the sweeper, and the worker of a queue with the first run on it: most tests need one or two of the eleven, and
 * each takes 75 ms of CPU time and 10 MB. Runs that another process starts do not count, see `announceStarts`.
 */
export function startWorkersOnDemand(container: Container): Pick<RunningWorkers, 'shutdown'> {
  const { temporal, workerQueues } = container.config;
  const started = new Map<TaskQueue, RunningWorkers>();
  const stopSweeps = startSweeps(container);
  demands.set(temporal.namespace, (queue) => {
    if (!started.has(queue) && workerQueues.includes(queue)) started.set(queue, startQueueWorkers(container, [queue]));
  });
  return {
    async shutdown() {
      demands.delete(temporal.namespace);
      await stopSweeps();
      await Promise.all([...started.values()].map((workers) => workers.shutdown()));
    },
  };
}

/** Lets the runs that this container starts start their workers. */
export function announceStarts({ temporal, config }: Container): void {
  const announce = (queue: string | undefined) => {
    const known = Object.values(taskQueues).find((each) => each === queue);
    if (known !== undefined) demands.get(config.temporal.namespace)?.(known);
  };
  const interceptor: WorkflowClientInterceptor = {
    startWithDetails(input, next) {
      announce(input.options.taskQueue);
      return next(input);
    },
    signalWithStart(input, next) {
      announce(input.options.taskQueue);
      return next(input);
    },
  };
  const { workflow, schedule } = temporal.client;
  if (Array.isArray(workflow.options.interceptors)) workflow.options.interceptors.push(interceptor);
  schedule.options.interceptors.push({
    create(input, next) {
      announce(input.options.action.taskQueue);
      return next(input);
    },
  });
}
