import type { Knex } from 'knex';
import { numberPages } from '#src/adapters/postgres/page-numbers.ts';
import { firstRow, pick, rows } from '#src/adapters/postgres/shapes.ts';
import { deleteGenerationsWith } from '#src/adapters/postgres/word-index.ts';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import type { SourceFormat } from '#src/domain/documents/formats.ts';
import { DocumentModel } from '#src/modules/documents/documents.model.ts';
import { JobModel } from '#src/modules/jobs/jobs.model.ts';
import {
  type ConversionKey,
  ConversionModel,
  type ConversionSummary,
  type DocumentKey,
  type DocumentStanding,
  documentStanding,
  GenerationModel,
  type GenerationRange,
  type IngestionTarget,
  ingestionTarget,
  type NewConversion,
  type Publication,
  publication,
} from './ingestion.model.ts';

const jobId = pick(JobModel, 'id');
const originalKey = pick(GenerationModel, 'blobKey');
const generationNumber = pick(GenerationModel, 'generation');

export type IngestionRepository = ReturnType<typeof createIngestionRepository>;

export function createIngestionRepository(db: Knex) {
  const generation = (of: IngestDocumentInput) =>
    GenerationModel.table(db).where({ orgId: of.orgId, documentId: of.documentId, generation: of.generation });
  const document = (of: IngestDocumentInput) =>
    DocumentModel.table(db).where({ orgId: of.orgId, id: of.documentId }).whereNull('deletedAt');

  return {
    /** Undefined once the document is deleted or the generation was collected. */
    async findTarget(of: IngestDocumentInput): Promise<IngestionTarget | undefined> {
      const target = db('documentGenerations as g')
        .join('documents as d', { 'd.orgId': 'g.orgId', 'd.id': 'g.documentId' })
        .where({ 'g.orgId': of.orgId, 'g.documentId': of.documentId, 'g.generation': of.generation })
        .whereNull('d.deletedAt')
        .select([
          ...['g.documentName', 'g.fileName', 'g.mediaType', 'g.declaredFormat', 'g.sourceFormat', 'g.sizeBytes'],
          ...['g.contentSha256', 'g.blobKey', 'g.ragConfig', 'g.conversionId', 'g.chunksTotal'],
          ...['d.generation as newestGeneration', 'd.activeGeneration'],
        ]);
      return firstRow(db, ingestionTarget, target);
    },

    /** Where the document of a run stands; undefined once it is deleted. */
    async findStanding(of: IngestDocumentInput): Promise<DocumentStanding | undefined> {
      const standing = document(of).select('generation as newestGeneration', 'activeGeneration');
      return firstRow(db, documentStanding, standing);
    },

    /** Ids of the jobs that work, or wait to work, on older generations of the document. */
    async listOlderOpenRuns(of: IngestDocumentInput): Promise<string[]> {
      const open = db('documentGenerations as g')
        .join('jobs as j', 'j.id', 'g.jobId')
        .where({ 'g.orgId': of.orgId, 'g.documentId': of.documentId })
        .where('g.generation', '<', of.generation)
        .whereNull('j.finishedAt')
        .select('j.id');
      return (await rows(db, jobId, open)).map(({ id }) => id);
    },

    /** Of the generation, and of its document for as long as that has this original. */
    async setSourceFormat(of: IngestDocumentInput, sourceFormat: SourceFormat): Promise<void> {
      await generation(of).update({ sourceFormat });
      await document(of).whereIn('blobKey', generation(of).select('blobKey')).update({ sourceFormat });
    },

    /** Of all documents that have this original; null for what was found before and is no longer. */
    async noteMalware(original: {
      orgId: string;
      blobKey: string;
      sha256: string;
      signature: string | null;
    }): Promise<void> {
      await db.raw(
        `update documents
         set malware = case when :signature::text is not null
           then jsonb_build_object('sha256', :sha256::text, 'signature', :signature::text) end
         where org_id = :orgId and blob_key = :blobKey and (malware is not null or :signature::text is not null)`,
        original,
      );
    },

    async findConversion(key: ConversionKey): Promise<ConversionSummary | undefined> {
      return ConversionModel.table(db).where(key).first('id', 'charCount', 'pageCount');
    },

    /** The first one stays: another run that converted the same content got the same. */
    async insertConversion(conversion: NewConversion): Promise<void> {
      await ConversionModel.table(db)
        .insert(conversion)
        .onConflict(['orgId', 'contentSha256', 'converterVersion', 'sourceFormat'])
        .ignore();
    },

    async readBody(orgId: string, conversionId: string): Promise<Pick<NewConversion, 'body' | 'pageMap'> | undefined> {
      return ConversionModel.table(db).where({ orgId, id: conversionId }).first('body', 'pageMap');
    },

    /** @returns false when that was its conversion before */
    async setConversion(of: IngestDocumentInput, conversionId: string): Promise<boolean> {
      const changed = await generation(of)
        .whereRaw('conversion_id is distinct from ?::uuid', [conversionId])
        .update({ conversionId });
      return changed > 0;
    },

    /** Tells chunks that were just cut on which pages they are, if those became known meanwhile. */
    async numberPages(orgId: string, conversionId: string): Promise<void> {
      // Whoever is about to write the pages numbers these chunks, too.
      await ConversionModel.table(db).where({ orgId, id: conversionId }).forShare().first('id');
      await numberPages(db, { orgId, conversionId });
    },

    /** Deletes conversions older than a day that no generation uses: at most `limit`. @returns how many there were */
    async deleteUnusedConversions(limit: number): Promise<number> {
      const unused = db('conversions as c')
        .whereRaw(`c.created_at < now() - interval '1 day'`)
        .whereNotExists((used) =>
          used.from('documentGenerations as g').whereRaw('g.org_id = c.org_id and g.conversion_id = c.id'),
        )
        .limit(limit)
        .select('c.id');
      return ConversionModel.query(db).whereIn('id', unused).delete();
    },

    /**
     * Holds the generation until the end of the transaction.
     * @returns how many chunks it was cut into, if it was; undefined once the document is deleted or a newer generation
     * was asked for
     */
    async lockNewest(of: IngestDocumentInput): Promise<{ chunksTotal: number | null } | undefined> {
      const locked = await generation(of).forUpdate().first('chunksTotal');
      const newest = await document(of).where({ generation: of.generation }).first('id');
      return newest === undefined ? undefined : locked;
    },

    async setChunked(of: IngestDocumentInput, chunksTotal: number): Promise<void> {
      await generation(of).update({ chunksTotal, chunkedAt: db.fn.now() });
    },

    /** Undefined once the document is deleted or a newer generation was asked for. */
    async findPublication(of: IngestDocumentInput): Promise<Publication | undefined> {
      const published = db('documents as d')
        .join('documentGenerations as g', { 'g.documentId': 'd.id', 'g.generation': 'd.generation' })
        .where({ 'd.orgId': of.orgId, 'd.id': of.documentId, 'd.generation': of.generation })
        .whereNull('d.deletedAt')
        .select('g.embeddingModel as model', 'd.acl', 'd.retrievalSettings');
      return firstRow(db, publication, published);
    },

    /**
     * Compare-and-set on the newest generation and on what was published of it.
     * @returns false when something else was asked for meanwhile
     */
    async activate(of: IngestDocumentInput, { model, acl, retrievalSettings }: Publication): Promise<boolean> {
      const flipped = await document(of)
        .where({ generation: of.generation, acl, retrievalSettings })
        .update({
          ...{ activeGeneration: of.generation, activeEmbeddingModel: model },
          // Of this moment, not of the transaction's beginning: questions look for what was changed while they searched.
          updatedAt: db.raw('clock_timestamp()'),
        });
      if (flipped === 1) await generation(of).update({ activatedAt: db.fn.now() });
      return flipped === 1;
    },

    /** Those that are neither what readers see nor the newest. */
    async listUnneeded(of: DocumentKey): Promise<number[]> {
      const unneeded = db('documentGenerations as g')
        .join('documents as d', { 'd.orgId': 'g.orgId', 'd.id': 'g.documentId' })
        .where({ 'g.orgId': of.orgId, 'g.documentId': of.documentId })
        .whereRaw('g.generation < d.generation and g.generation is distinct from d.active_generation')
        .orderBy('g.generation')
        .select('g.generation');
      return (await rows(db, generationNumber, unneeded)).map(({ generation }) => generation);
    },

    /** Originals of these generations that neither the document nor another of its generations has. */
    async listBlobKeys(range: GenerationRange): Promise<string[]> {
      const originals = await rows(
        db,
        originalKey,
        `select blob_key from document_generations
         where org_id = :orgId and document_id = :documentId and generation >= :from and generation < :before
         except
         select blob_key from document_generations
         where org_id = :orgId and document_id = :documentId and not (generation >= :from and generation < :before)
         except
         select blob_key from documents where org_id = :orgId and id = :documentId`,
        range,
      );
      return originals.map(({ blobKey }) => blobKey);
    },

    /**
     * With their chunks and postings, which may be a million rows: a part at a time. Texts that no generation holds any
     * more go with them.
     */
    async deleteGenerations(range: GenerationRange, signal: AbortSignal): Promise<void> {
      const deleteRows = (trx: Knex) =>
        trx.raw(
          `with unneeded as (
           delete from document_generations
           where org_id = :orgId and document_id = :documentId and generation >= :from and generation < :before
           returning content_sha256
         )
         delete from conversions c
         where c.org_id = :orgId and c.content_sha256 in (select content_sha256 from unneeded)
           and not exists (
             select from document_generations g
             where g.org_id = c.org_id and g.content_sha256 = c.content_sha256
               and not (g.document_id = :documentId and g.generation >= :from and g.generation < :before)
           )`,
          range,
        );
      await deleteGenerationsWith(db, range, deleteRows, signal);
    },
  };
}
