import { createReembeddingActivities } from '#activities/reembedding.ts';
import type { Container } from '#src/container.ts';
import { taskQueues } from '#src/contracts/task-queues.ts';
import type { QueueWorker } from './queue-worker.ts';

export function reembeddingWorker(container: Pick<Container, 'reembedding'>): QueueWorker {
  return {
    taskQueue: taskQueues.reembedding,
    activities: createReembeddingActivities(container),
    // Steps wait for ingestions, one for each organization at a time.
    maxConcurrentActivities: 16,
  };
}
