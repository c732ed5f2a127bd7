import type { Knex } from 'knex';
import type { Logger } from 'pino';
import { ingestWorkflowId, previewWorkflowId } from '#src/contracts/workflow-ids.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { type IngestionSource, isSmallDocument, staleness } from '#src/domain/documents/rag-config.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { Orchestrator } from '#src/ports/orchestrator.ts';
import { createGenerationsRepository } from './generations.repository.ts';

/** A document whose row the caller's transaction holds. */
export type IngestibleDocument = IngestionSource & {
  id: string;
  name: string;
  sourceFormat: string | null;
  sizeBytes: number;
  acl: readonly string[];
  generation: number;
  activeGeneration: number | null;
};

/**
 * What a transaction decided about a document's ingestion: its job, whether that has to be set going after the commit,
 * and whose place it takes.
 */
export type IngestionPlan = { jobId: string; isQueued: boolean; superseded: readonly string[] };

type OpenOptions = {
  /** Leaves readers nothing until it is active. */
  isRedo?: boolean;
  isBulk?: boolean;
  /** Names the request that asks for it. */
  reservedId?: string | null;
};

export type GenerationsService = ReturnType<typeof createGenerationsService>;

/** Opens generations of documents. A newer one takes the place of all that went before it. */
export function createGenerationsService(deps: {
  jobs: Pick<JobsService, 'enqueue' | 'retry' | 'dispatch' | 'openRunsOf'>;
  orchestrator: Pick<Orchestrator, 'cancel'>;
  logger: Pick<Logger, 'warn'>;
}) {
  const { jobs, orchestrator, logger } = deps;

  /** What still runs for the document, and is of no use to its next generation. */
  async function listSuperseded(trx: Knex, orgId: string, { id: documentId, generation }: IngestibleDocument) {
    if (generation === 0) return [];
    const ingestions = await jobs.openRunsOf(trx, { documentId, kind: 'ingest' });
    const previews = await jobs.openRunsOf(trx, { documentId, kind: 'preview' });
    if (previews.length === 0) return ingestions;
    const replaced = await createGenerationsRepository(trx).listOfOtherOriginals({ orgId, documentId });
    const needless = new Set(replaced.map((older) => previewWorkflowId(documentId, older)));
    return [...ingestions, ...previews.filter((jobId) => needless.has(jobId))];
  }

  /** Opens the next generation, of what the document is now, with its job. */
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
        // Jobs and runs outlive the document: neither keeps its name.
        summary: `Ingest document ${of.documentId}, generation ${of.generation}`,
        bulk: isBulk,
      },
      requestId: actor.requestId,
    });
    return { jobId, isQueued: true, superseded };
  }

  return {
    open,

    /** The plan of a request that has opened a generation before. */
    async findReserved(
      trx: Knex,
      { orgId }: RequestActor,
      { documentId, reservedId }: { documentId: string; reservedId: string },
    ): Promise<IngestionPlan | undefined> {
      const jobId = await createGenerationsRepository(trx).findReservedJob({ orgId, documentId, reservedId });
      return jobId === undefined ? undefined : { jobId, isQueued: true, superseded: [] };
    },

    /** Opens one only when the newest is of what the document was, or has come to nothing; a parked one goes on. */
    async openIfNeeded(
      trx: Knex,
      actor: RequestActor,
      document: IngestibleDocument,
      how: Omit<OpenOptions, 'isRedo'> = {},
    ): Promise<IngestionPlan> {
      const of = { orgId: actor.orgId, documentId: document.id };
      const newest = await createGenerationsRepository(trx).findNewest(of);
      if (newest === undefined || staleness(newest, document).embedding) return open(trx, actor, document, how);
      const { jobId, jobStatus, cancelRequestedAt } = newest;
      const underWay: IngestionPlan = { jobId, isQueued: false, superseded: [] };
      if (document.activeGeneration === document.generation) return underWay;
      if (cancelRequestedAt !== null) return open(trx, actor, document, how);
      if (jobStatus === 'queued' || jobStatus === 'running') return underWay;
      if (jobStatus === 'parked') return { ...underWay, isQueued: await jobs.retry(trx, jobId) };
      return open(trx, actor, document, how);
    },

    /**
     * To be called after the commit. Never throws: what does not succeed now is done by the sweeper and by the first
     * step of the new run.
     */
    async carryOut({ jobId, isQueued, superseded }: IngestionPlan): Promise<void> {
      if (!isQueued) return;
      const cancelled = superseded.map((older) => orchestrator.cancel(older));
      const [, ...stops] = await Promise.allSettled([jobs.dispatch(jobId), ...cancelled]);
      const failed = stops.find((stop) => stop.status === 'rejected');
      if (failed === undefined) return;
      logger.warn({ err: failed.reason, jobId }, 'older runs are left to the newer one to stop');
    },
  };
}
