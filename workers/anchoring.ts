import { createAnchoringActivities } from '#activities/anchoring.ts';
import type { Container } from '#src/container.ts';
import { taskQueues } from '#src/contracts/task-queues.ts';
import type { QueueWorker } from './queue-worker.ts';

export function anchoringWorker(container: Pick<Container, 'anchoring'>): QueueWorker {
  return {
    taskQueue: taskQueues.anchoring,
    activities: createAnchoringActivities(container),
    // Each waits for one answer of a chat model, which people wait for as well.
    maxConcurrentActivities: 4,
  };
}
