import { createAlignmentActivities } from '#activities/alignment.ts';
import type { Container } from '#src/container.ts';
import { taskQueues } from '#src/contracts/task-queues.ts';
import type { QueueWorker } from './queue-worker.ts';

export function alignmentWorker(container: Pick<Container, 'alignment'>): QueueWorker {
  return {
    taskQueue: taskQueues.alignment,
    activities: createAlignmentActivities(container),
    // Steps wait for the database and the embedder, milliseconds each: this bounds the calls that these get at once.
    maxConcurrentActivities: 16,
  };
}
