import { createConnectorActivities } from '#activities/connectors.ts';
import type { Container } from '#src/container.ts';
import { taskQueues } from '#src/contracts/task-queues.ts';
import type { QueueWorker } from './queue-worker.ts';

export function connectorsWorker(container: Pick<Container, 'importSteps' | 'syncs'>): QueueWorker {
  return {
    taskQueue: taskQueues.connectors,
    activities: createConnectorActivities(container),
    // Steps wait for providers, eight of each import at a time; each file passes through without being held in memory.
    maxConcurrentActivities: 32,
  };
}
