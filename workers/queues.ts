import { availableParallelism } from 'node:os';
import { createAlignmentActivities } from '#activities/alignment.ts';
import { createAnchorWordActivities } from '#activities/anchoring.ts';
import { createCleanUpActivities } from '#activities/clean-up.ts';
import { createConnectorActivities } from '#activities/connectors.ts';
import { createDeletionActivities } from '#activities/deletion.ts';
import { createErasureActivities } from '#activities/erasure.ts';
import { createEvaluationActivities } from '#activities/evaluation.ts';
import { createExportActivities } from '#activities/exports.ts';
import { createIngestionActivities } from '#activities/ingestion.ts';
import { createPreviewActivities } from '#activities/previews.ts';
import { createReembeddingActivities } from '#activities/reembedding.ts';
import { createStoreAuditActivities } from '#activities/store-audit.ts';
import type { Container } from '#src/container.ts';
import { type TaskQueue, taskQueues } from '#src/contracts/workflow-runs.ts';
import { createSweeps } from './sweeps.ts';

export type QueueWorkerOptions = { taskQueue: TaskQueue; activities: object; maxConcurrentActivities: number };

export function createQueueWorkerOptions(container: Container): QueueWorkerOptions[] {
  return [
    {
      taskQueue: taskQueues.ingestion,
      activities: createIngestionActivities(container),
      // Ingestion mostly waits for parsers, models and Postgres, but the limit depends on the CPU cores, because each
      // parser may take one.
      maxConcurrentActivities: Math.max(4, 2 * availableParallelism()),
    },
    {
      taskQueue: taskQueues.alignment,
      activities: createAlignmentActivities(container),
      // Scoring a round takes milliseconds; the limit bounds concurrent calls to Postgres and the embedder.
      maxConcurrentActivities: 16,
    },
    {
      taskQueue: taskQueues.anchoring,
      activities: createAnchorWordActivities(container),
      // Each proposal of anchor words waits for a chat model that also serves users in chats.
      maxConcurrentActivities: 4,
    },
    {
      taskQueue: taskQueues.previews,
      activities: createPreviewActivities(container),
      // LibreOffice takes a CPU core per file; meanwhile a second activity can read or store another file.
      maxConcurrentActivities: 2,
    },
    {
      // Deletion has its own queue, so that a backlog of ingestions does not delay it.
      taskQueue: taskQueues.deletion,
      activities: createDeletionActivities(container),
      maxConcurrentActivities: 8,
    },
    {
      taskQueue: taskQueues.reembedding,
      activities: createReembeddingActivities(container),
      // Re-embedding runs one activity per organization, which waits for ingestions.
      maxConcurrentActivities: 16,
    },
    {
      taskQueue: taskQueues.erasure,
      activities: {
        ...createErasureActivities(container),
        ...createCleanUpActivities({ ...container, sweeps: createSweeps(container) }),
      },
      // Neither erasure nor cleaning up is urgent: few concurrent activities leave the capacity of Postgres to users.
      maxConcurrentActivities: 4,
    },
    {
      taskQueue: taskQueues.exports,
      activities: createExportActivities(container),
      // An export reads and writes at full speed, so few may run. Two concurrent volumes let a small export overtake a
      // large one.
      maxConcurrentActivities: 2,
    },
    {
      taskQueue: taskQueues.evaluation,
      activities: createEvaluationActivities(container),
      // Evaluations wait for models; the call limiter allows 8 calls per organization and model.
      maxConcurrentActivities: 64,
    },
    {
      taskQueue: taskQueues.connectors,
      activities: createConnectorActivities(container),
      // Imports wait for providers, 8 files per import, and stream files without holding them in memory.
      maxConcurrentActivities: 32,
    },
    {
      taskQueue: taskQueues.storeAudit,
      activities: createStoreAuditActivities(container),
      // The store audit is not urgent and should take few resources.
      maxConcurrentActivities: 1,
    },
  ];
}
