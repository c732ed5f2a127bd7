import type { Knex } from 'knex';
import type { Logger } from 'pino';
import { subjectInSummary } from '#src/contracts/jobs.ts';
import { ingestWorkflowId, previewWorkflowId } from '#src/contracts/workflow-ids.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import {
  type ContentHashAndRagConfig,
  findStaleIngestionResults,
  isSmallDocument,
} from '#src/domain/documents/rag-config.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { Orchestrator } from '#src/ports/orchestrator.ts';
import { createGenerationsRepository } from './generations.repository.ts';

/** A document whose row the caller's transaction has locked, with the fields that an ingestion needs. */
type IngestibleDocument = ContentHashAndRagConfig & {
  id: string;
  name: string;
  sourceFormat: string | null;
  sizeBytes: number;
  acl: readonly string[];
  generation: number;
  activeGeneration: number | null;
};

/**
 * The result of a transaction that requested an ingestion. If `isQueued`, the caller must call `carryOut` after the
 * commit to start the job and cancel the `superseded` jobs.
 */
export type IngestionPlan = { jobId: string; isQueued: boolean; superseded: readonly string[] };

type OpenOptions = {
  /** Deactivates the active generation at once: readers find nothing until the new generation is active. */
  isRedo?: boolean;
  isBulk?: boolean;
  /** Id of the request that opens the generation, by which `findReserved` finds it if the request is repeated. */
  reservedId?: string | null;
};

export type GenerationsService = ReturnType<typeof createGenerationsService>;

/** Opens generations of documents. A newer generation supersedes all older ones. */
export function createGenerationsService(deps: {
  jobs: Pick<JobsService, 'enqueue' | 'retry' | 'dispatch' | 'openRunsOf'>;
  orchestrator: Pick<Orchestrator, 'cancel'>;
  logger: Pick<Logger, 'warn'>;
}) {
  const { jobs, orchestrator, logger } = deps;

  async function listSuperseded(trx: Knex, orgId: string, { id: documentId, generation }: IngestibleDocument) {
    if (generation === 0) return [];
    const ingestions = await jobs.openRunsOf(trx, { documentId, kind: 'ingest' });
    const previews = await jobs.openRunsOf(trx, { documentId, kind: 'preview' });
    if (previews.length === 0) return ingestions;
    const replaced = await createGenerationsRepository(trx).listOfOtherOriginals({ orgId, documentId });
    const outdated = new Set(replaced.map((older) => previewWorkflowId(documentId, older)));
    return [...ingestions, ...previews.filter((jobId) => outdated.has(jobId))];
  }

  async function open(
    trx: Knex,
    actor: RequestActor,
    document: IngestibleDocument,
    { isRedo = false, isBulk = false, reservedId = null }: OpenOptions = {},
  ): Promise<IngestionPlan> {
    const of = { orgId: actor.orgId, documentId: document.id, generation: document.generation + 1 };
    const jobId = ingestWorkflowId(of.documentId, of.generation);
    const superseded = await listSuperseded(trx, of.orgId, document);
    await createGenerationsRepository(trx).open({ ...of, jobId }, { isRedo, reservedId });
    await jobs.enqueue(trx, {
      id: jobId,
      kind: 'ingest',
      orgId: actor.orgId,
      createdBy: actor.userId,
      acl: document.acl,
      documentId: document.id,
      start: {
        workflow: 'ingestDocument',
        input: { ...of, isSmall: isSmallDocument(document) },
        summary: `Ingest ${subjectInSummary}`,
        bulk: isBulk,
      },
      requestId: actor.requestId,
    });
    return { jobId, isQueued: true, superseded };
  }

  return {
    open,

    async findReserved(
      trx: Knex,
      { orgId }: RequestActor,
      { documentId, reservedId }: { documentId: string; reservedId: string },
    ): Promise<IngestionPlan | undefined> {
      const jobId = await createGenerationsRepository(trx).findReservedJob({ orgId, documentId, reservedId });
      return jobId === undefined ? undefined : { jobId, isQueued: true, superseded: [] };
    },

    /**
     * Opens a generation unless the newest one has the document's current state and is active or running. Resumes a
     * parked generation; opens another if the newest failed, was cancelled or is being cancelled.
     */
    async openIfNeeded(
      trx: Knex,
      actor: RequestActor,
      document: IngestibleDocument,
      options: Omit<OpenOptions, 'isRedo'> = {},
    ): Promise<IngestionPlan> {
      const of = { orgId: actor.orgId, documentId: document.id };
      const newest = await createGenerationsRepository(trx).findNewest(of);
      if (newest === undefined || findStaleIngestionResults(newest, document).embedding)
        return open(trx, actor, document, options);
      const { jobId, jobStatus, cancelRequestedAt } = newest;
      const underWay: IngestionPlan = { jobId, isQueued: false, superseded: [] };
      if (document.activeGeneration === document.generation) return underWay;
      if (cancelRequestedAt !== null) return open(trx, actor, document, options);
      if (jobStatus === 'queued' || jobStatus === 'running') return underWay;
      if (jobStatus === 'parked') return { ...underWay, isQueued: await jobs.retry(trx, jobId) };
      return open(trx, actor, document, options);
    },

    /**
     * Starts the planned job and cancels the superseded ones; call it after the commit. Never throws: the sweeper
     * starts the job later, and the job's first step cancels older runs that are still running.
     */
    async carryOut({ jobId, isQueued, superseded }: IngestionPlan): Promise<void> {
      if (!isQueued) return;
      const cancelled = superseded.map((older) => orchestrator.cancel(older));
      const [, ...stops] = await Promise.allSettled([jobs.dispatch(jobId), ...cancelled]);
      const failed = stops.find((stop) => stop.status === 'rejected');
      if (failed === undefined) return;
      logger.warn({ err: failed.reason, jobId }, 'cancelling superseded runs failed; the new run will retry');
    },
  };
}
