import { taskQueues } from '#src/contracts/task-queues.ts';
import type { QueueWorker } from './queue-worker.ts';

/** A queue of its own: what somebody deletes is gone soon, however many documents are being read. */
export function deletionWorker(): QueueWorker {
  return {
    taskQueue: taskQueues.deletion,
    activities: {},
    // Steps delete in batches; this bounds how many of these the database gets at once.
    maxConcurrentActivities: 4,
  };
}
