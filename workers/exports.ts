import { createExportActivities } from '#activities/exports.ts';
import type { Container } from '#src/container.ts';
import { taskQueues } from '#src/contracts/task-queues.ts';
import type { QueueWorker } from './queue-worker.ts';

export function exportsWorker(container: Pick<Container, 'exportSteps'>): QueueWorker {
  return {
    taskQueue: taskQueues.exports,
    activities: createExportActivities(container),
    // Each reads and writes the store as fast as that goes: a second one, so that a small export passes by a large one.
    maxConcurrentActivities: 2,
  };
}
