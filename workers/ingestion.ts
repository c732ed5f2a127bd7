import { availableParallelism } from 'node:os';
import { createIngestionActivities } from '#activities/ingestion.ts';
import type { Container } from '#src/container.ts';
import { taskQueues } from '#src/contracts/task-queues.ts';
import type { QueueWorker } from './queue-worker.ts';

export function ingestionWorker(container: Pick<Container, 'ingestion'>): QueueWorker {
  return {
    taskQueue: taskQueues.ingestion,
    activities: createIngestionActivities(container),
    // Steps wait for parsers, models and the database most of the time, but each parser may take a core.
    maxConcurrentActivities: Math.max(4, 2 * availableParallelism()),
  };
}
