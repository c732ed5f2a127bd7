import { createPreviewActivities } from '#activities/previews.ts';
import type { Container } from '#src/container.ts';
import { taskQueues } from '#src/contracts/task-queues.ts';
import type { QueueWorker } from './queue-worker.ts';

export function previewsWorker(container: Pick<Container, 'previews'>): QueueWorker {
  return {
    taskQueue: taskQueues.previews,
    activities: createPreviewActivities(container),
    // An office program takes a core, and nobody waits for it: a second one reads or stores meanwhile.
    maxConcurrentActivities: 2,
  };
}
