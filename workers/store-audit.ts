import { createStoreAuditActivities } from '#activities/store-audit.ts';
import type { Container } from '#src/container.ts';
import { taskQueues } from '#src/contracts/task-queues.ts';
import type { QueueWorker } from './queue-worker.ts';

export function storeAuditWorker(container: Pick<Container, 'storeAudit'>): QueueWorker {
  return {
    taskQueue: taskQueues.storeAudit,
    activities: createStoreAuditActivities(container),
    // Nobody waits for it, and it should not be felt.
    maxConcurrentActivities: 1,
  };
}
