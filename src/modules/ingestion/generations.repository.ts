import type { JobStatus } from '#src/contracts/jobs.ts';
import type { IngestionSource } from '#src/domain/staleness.ts';
import type { Db } from '#src/ports/database.ts';
import type { DocumentKey } from './ingestion.model.ts';

/** A document's newest generation: what it is made of, and how far its job is. */
export type NewestGeneration = IngestionSource & {
  jobId: string;
  jobStatus: JobStatus | null;
  /** Its run has been asked to stop, and may not have done so yet. */
  cancelRequestedAt: Date | null;
};

export function createGenerationsRepository(db: Db) {
  return {
    /**
     * Fixes what the generation is made of as the document is now, and makes it the newest. A redo leaves readers
     * nothing until it is active.
     */
    async open(
      of: DocumentKey & { generation: number; jobId: string },
      { isRedo, reservedId = null }: { isRedo: boolean; reservedId?: string | null },
    ): Promise<void> {
      await db.raw(
        `insert into document_generations (org_id, document_id, generation, job_id, reserved_id, document_name, file_name, media_type,
                                           declared_format, size_bytes, content_sha256, blob_key, rag_config)
         select org_id, id, :generation, :jobId, cast(:reservedId as uuid), name, file_name, media_type,
                declared_format, size_bytes, content_sha256, blob_key, rag_config
         from documents where org_id = :orgId and id = :documentId`,
        { ...of, reservedId },
      );
      await db('documents')
        .where({ orgId: of.orgId, id: of.documentId })
        .update({ generation: of.generation, ...(isRedo && { activeGeneration: null }) });
    },

    async findReservedJob(of: DocumentKey & { reservedId: string }): Promise<string | undefined> {
      return (await db('documentGenerations').where(of).first('jobId'))?.jobId;
    },

    /** The generations that were made of an original which the document no longer has. */
    async listOfOtherOriginals({ orgId, documentId }: DocumentKey): Promise<number[]> {
      return db('documentGenerations as g')
        .join('documents as d', { 'd.orgId': 'g.orgId', 'd.id': 'g.documentId' })
        .where({ 'g.orgId': orgId, 'g.documentId': documentId })
        .whereRaw('g.blob_key <> d.blob_key')
        .pluck('g.generation');
    },

    async findNewest({ orgId, documentId }: DocumentKey): Promise<NewestGeneration | undefined> {
      return db('documentGenerations as g')
        .leftJoin('jobs as j', 'j.id', 'g.jobId')
        .where({ 'g.orgId': orgId, 'g.documentId': documentId })
        .orderBy('g.generation', 'desc')
        .first(...['g.contentSha256', 'g.ragConfig', 'g.jobId'], ...['j.status as jobStatus', 'j.cancelRequestedAt']);
    },
  };
}
