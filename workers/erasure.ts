import { createErasureActivities } from '#activities/erasure.ts';
import type { Container } from '#src/container.ts';
import { taskQueues } from '#src/contracts/task-queues.ts';
import type { QueueWorker } from './queue-worker.ts';

export function erasureWorker(container: Pick<Container, 'erasure'>): QueueWorker {
  return {
    taskQueue: taskQueues.erasure,
    activities: createErasureActivities(container),
    // Nobody waits for them: a few, so that they take little from who uses the database.
    maxConcurrentActivities: 4,
  };
}
