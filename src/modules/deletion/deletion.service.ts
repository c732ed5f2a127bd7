import { setTimeout as delay } from 'node:timers/promises';
import type { Knex } from 'knex';
import type { DeleteDocumentInput, DeletionStage, RecordDeletionFailureInput } from '#src/contracts/deletion.ts';
import { deletionWorkflowId } from '#src/contracts/workflow-ids.ts';
import type { EmbeddingsService } from '#src/modules/embeddings/embeddings.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { OriginalFilesService } from '#src/modules/originals/originals.service.ts';
import type { Orchestrator } from '#src/ports/orchestrator.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import { createDeletionRepository } from './deletion.repository.ts';

/**
 * Interval for polling whether a cancelled workflow run has ended: it ends within seconds, and no client waits for it.
 */
const POLL_INTERVAL_MS = 200;

export type DeletionRequest = { createdBy: string; acl: readonly string[]; requestId: string | null };

export type DeletionService = ReturnType<typeof createDeletionService>;

/**
 * Implements the steps of the workflow `deleteDocument`. The HTTP request has already marked the document as deleted,
 * so it cannot be read and ingestions do not write to it. The document's row is deleted last, so that every step can be
 * repeated.
 */
export function createDeletionService(deps: {
  db: Knex;
  originals: Pick<OriginalFilesService, 'release'>;
  embeddings: Pick<EmbeddingsService, 'forgetUnused'>;
  vectors: Pick<VectorStore, 'deleteGenerations'>;
  jobs: Pick<JobsService, 'enqueue' | 'enqueueAll' | 'advance' | 'openRunsOf'>;
  orchestrator: Pick<Orchestrator, 'cancel' | 'describe'>;
}) {
  const { db, originals, embeddings, vectors, jobs, orchestrator } = deps;
  const repository = createDeletionRepository(db);

  const enter = (of: DeleteDocumentInput, stage: DeletionStage): Promise<void> =>
    jobs.advance(deletionWorkflowId(of.documentId), { status: 'running', stage });

  const deleteVectors = ({ orgId, documentId }: DeleteDocumentInput): Promise<void> =>
    vectors.deleteGenerations({ orgId, documentId, before: null });

  const toJob = ({ orgId, documentId }: DeleteDocumentInput, request: DeletionRequest, bulk: boolean) => {
    const { createdBy, acl, requestId } = request;
    const input = { orgId, documentId };
    const start = { workflow: 'deleteDocument', input, summary: 'Delete a document', ...(bulk && { bulk }) } as const;
    return { id: deletionWorkflowId(documentId), kind: 'delete', ...input, createdBy, acl, requestId, start } as const;
  };

  return {
    async enqueue(trx: Knex, of: DeleteDocumentInput, request: DeletionRequest): Promise<string> {
      const job = toJob(of, request, false);
      await jobs.enqueue(trx, job);
      return job.id;
    },

    /** Enqueues deletions of many documents with lower priority; the sweeper starts the jobs. */
    async enqueueAll(
      trx: Knex,
      documents: readonly (DeleteDocumentInput & { acl: readonly string[] })[],
      { createdBy, requestId }: Omit<DeletionRequest, 'acl'>,
    ): Promise<void> {
      const all = documents.map(({ acl, ...of }) => toJob(of, { createdBy, acl, requestId }, true));
      await jobs.enqueueAll(trx, all);
    },

    async stopIngestion(of: DeleteDocumentInput, signal: AbortSignal): Promise<void> {
      await enter(of, 'stop');
      const openRuns = async () => {
        const kinds = ['ingest', 'preview'] as const;
        const runs = await Promise.all(kinds.map((kind) => jobs.openRunsOf(db, { documentId: of.documentId, kind })));
        return runs.flat();
      };
      const runs = await openRuns();
      await Promise.all(runs.map((workflowId) => orchestrator.cancel(workflowId)));
      for (const workflowId of runs) {
        while ((await orchestrator.describe(workflowId)) === 'open') {
          await delay(POLL_INTERVAL_MS, undefined, { signal });
        }
      }
      // Marks jobs that are still open as cancelled: a job that never started, or whose workflow run was terminated,
      // does not record its own end.
      for (const workflowId of await openRuns()) await jobs.advance(workflowId, { status: 'cancelled' });
    },

    async deleteVectors(of: DeleteDocumentInput): Promise<void> {
      await enter(of, 'vectors');
      await deleteVectors(of);
    },

    async deleteChunks(of: DeleteDocumentInput, signal: AbortSignal): Promise<void> {
      await enter(of, 'chunks');
      for (;;) {
        signal.throwIfAborted();
        const hashes = await repository.deleteChunks(of);
        if (hashes === null) return;
        // Deleting chunks and their cached embeddings in one transaction would lock the term statistics for too long.
        // The sweeper deletes embeddings that this step misses.
        await embeddings.forgetUnused(db, of.orgId, hashes);
      }
    },

    async deleteOriginal(of: DeleteDocumentInput): Promise<void> {
      await enter(of, 'original');
      for (const blobKey of await repository.listBlobKeys(of)) await originals.release({ orgId: of.orgId, blobKey });
      await repository.deleteGenerations(of);
    },

    async forgetDocument(of: DeleteDocumentInput): Promise<void> {
      await enter(of, 'forget');
      await repository.deleteDocument(of);
      // Deletes vectors again, because a worker that lost its connection to Temporal may have stored more.
      await deleteVectors(of);
    },

    async recordDeletion(of: DeleteDocumentInput): Promise<void> {
      await jobs.advance(deletionWorkflowId(of.documentId), { status: 'succeeded' });
    },

    async recordParked({ error, ...of }: RecordDeletionFailureInput): Promise<void> {
      await jobs.advance(deletionWorkflowId(of.documentId), { status: 'parked', error });
    },

    async recordResumed(of: DeleteDocumentInput): Promise<void> {
      await jobs.advance(deletionWorkflowId(of.documentId), { status: 'running' });
    },

    async recordFailure({ error, attempt, startId, ...of }: RecordDeletionFailureInput): Promise<void> {
      await jobs.advance(deletionWorkflowId(of.documentId), { status: 'failed', error }, { attempt, startId });
    },
  };
}
