import type { Knex } from 'knex';
import { type Row, text, timestamp } from '#src/adapters/postgres/columns.ts';
import { firstRow, pick, rows, shape } from '#src/adapters/postgres/shapes.ts';
import type { JobStatus } from '#src/contracts/jobs.ts';
import { DocumentModel } from '#src/modules/documents/documents.model.ts';
import { type DocumentKey, GenerationModel } from './ingestion.model.ts';

/** A document's newest generation: what it is made of, and how far its job is. */
const newestGeneration = shape({
  ...pick(GenerationModel, 'contentSha256', 'ragConfig', 'jobId').columns,
  jobStatus: text<JobStatus>().nullable(),
  /** Its run has been asked to stop, and may not have done so yet. */
  cancelRequestedAt: timestamp().nullable(),
});
export type NewestGeneration = Row<typeof newestGeneration>;

const generationNumber = pick(GenerationModel, 'generation');

export function createGenerationsRepository(db: Knex) {
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
      await DocumentModel.query(db)
        .where({ orgId: of.orgId, id: of.documentId })
        .patch({ generation: of.generation, ...(isRedo && { activeGeneration: null }) });
    },

    async findReservedJob(of: DocumentKey & { reservedId: string }): Promise<string | undefined> {
      return (await GenerationModel.table(db).where(of).first('jobId'))?.jobId;
    },

    /** The generations that were made of an original which the document no longer has. */
    async listOfOtherOriginals({ orgId, documentId }: DocumentKey): Promise<number[]> {
      const made = db('documentGenerations as g')
        .join('documents as d', { 'd.orgId': 'g.orgId', 'd.id': 'g.documentId' })
        .where({ 'g.orgId': orgId, 'g.documentId': documentId })
        .whereRaw('g.blob_key <> d.blob_key')
        .select('g.generation');
      return (await rows(db, generationNumber, made)).map(({ generation }) => generation);
    },

    async findNewest({ orgId, documentId }: DocumentKey): Promise<NewestGeneration | undefined> {
      const newest = db('documentGenerations as g')
        .leftJoin('jobs as j', 'j.id', 'g.jobId')
        .where({ 'g.orgId': orgId, 'g.documentId': documentId })
        .orderBy('g.generation', 'desc')
        .limit(1)
        .select('g.contentSha256', 'g.ragConfig', 'g.jobId', 'j.status as jobStatus', 'j.cancelRequestedAt');
      return firstRow(db, newestGeneration, newest);
    },
  };
}
