import type { TaskQueue } from '#src/contracts/task-queues.ts';

/** What runs on one task queue. */
export type QueueWorker = {
  taskQueue: TaskQueue;
  activities: object;
  maxConcurrentActivities: number;
};
