import { createDeletionActivities } from '#activities/deletion.ts';
import type { Container } from '#src/container.ts';
import { taskQueues } from '#src/contracts/task-queues.ts';
import type { QueueWorker } from './queue-worker.ts';

/** A queue of its own: what somebody deletes is gone soon, however many documents are being read. */
export function deletionWorker(container: Pick<Container, 'deletion'>): QueueWorker {
  return {
    taskQueue: taskQueues.deletion,
    activities: createDeletionActivities(container),
    // Steps wait for the database and for runs that end; this bounds the calls that the database gets at once.
    maxConcurrentActivities: 8,
  };
}
