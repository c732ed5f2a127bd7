import { createEvaluationActivities } from '#activities/evaluation.ts';
import type { Container } from '#src/container.ts';
import { taskQueues } from '#src/contracts/task-queues.ts';
import type { QueueWorker } from './queue-worker.ts';

export function evaluationWorker(container: Pick<Container, 'evaluationSteps'>): QueueWorker {
  return {
    taskQueue: taskQueues.evaluation,
    activities: createEvaluationActivities(container),
    // Steps wait for models, eight of each organization and model at a time; the others for their turn.
    maxConcurrentActivities: 64,
  };
}
