import type { Knex } from 'knex';
import { assignPageNumbers, deleteChunksOfGenerations } from '#src/adapters/postgres/chunks.ts';
import {
  defineRowShape,
  pickColumns,
  queryFirstRow,
  queryRows,
  type SqlRow,
  textColumn,
  timestampColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import type { JobStatus } from '#src/contracts/jobs.ts';
import { analyzerVersion } from '#src/domain/documents/chunk-document.ts';
import type { SourceFormat } from '#src/domain/documents/formats.ts';
import { DocumentModel } from '#src/modules/documents/documents.model.ts';
import { JobModel } from '#src/modules/jobs/jobs.model.ts';
import type { OcrPage } from '#src/ports/documents.ts';
import {
  type ConversionKey,
  ConversionModel,
  type ConversionSummary,
  type DocumentGenerationRange,
  type DocumentGenerationState,
  type DocumentReference,
  documentGenerationStateRowShape,
  GenerationModel,
  type GenerationPublication,
  generationPublicationRowShape,
  type IngestionTarget,
  ingestionTargetRowShape,
  type NewConversion,
  RecognizedPageModel,
} from './ingestion.model.ts';

const newestGeneration = defineRowShape({
  ...pickColumns(GenerationModel, 'contentSha256', 'ragConfig', 'jobId').columns,
  jobStatus: textColumn<JobStatus>().nullable(),
  cancelRequestedAt: timestampColumn().nullable(),
});
type NewestGeneration = SqlRow<typeof newestGeneration>;

const jobId = pickColumns(JobModel, 'id');
const originalKey = pickColumns(GenerationModel, 'blobKey');
const generationNumber = pickColumns(GenerationModel, 'generation');

export function createGenerationsRepository(db: Knex) {
  const generation = (of: IngestDocumentInput) =>
    GenerationModel.table(db).where({ orgId: of.orgId, documentId: of.documentId, generation: of.generation });
  const document = (of: IngestDocumentInput) =>
    DocumentModel.table(db).where({ orgId: of.orgId, id: of.documentId }).whereNull('deletedAt');

  return {
    /**
     * Creates a generation from the document's current original and settings, and makes it the newest. `isRedo`
     * deactivates the active generation, so that readers find nothing until the new one is active.
     */
    async open(
      of: DocumentReference & { generation: number; jobId: string },
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

    async findReservedJob(of: DocumentReference & { reservedId: string }): Promise<string | undefined> {
      return (await GenerationModel.table(db).where(of).first('jobId'))?.jobId;
    },

    async findNewest({ orgId, documentId }: DocumentReference): Promise<NewestGeneration | undefined> {
      const newest = db('documentGenerations as g')
        .leftJoin('jobs as j', 'j.id', 'g.jobId')
        .where({ 'g.orgId': orgId, 'g.documentId': documentId })
        .orderBy('g.generation', 'desc')
        .limit(1)
        .select('g.contentSha256', 'g.ragConfig', 'g.jobId', 'j.status as jobStatus', 'j.cancelRequestedAt');
      return queryFirstRow(db, newestGeneration, newest);
    },

    async listOfOtherOriginals({ orgId, documentId }: DocumentReference): Promise<number[]> {
      const made = db('documentGenerations as g')
        .join('documents as d', { 'd.orgId': 'g.orgId', 'd.id': 'g.documentId' })
        .where({ 'g.orgId': orgId, 'g.documentId': documentId })
        .whereRaw('g.blob_key <> d.blob_key')
        .select('g.generation');
      return (await queryRows(db, generationNumber, made)).map(({ generation }) => generation);
    },

    /** Finds original and settings of a generation. Undefined once the document or the generation is deleted. */
    async findTarget(of: IngestDocumentInput): Promise<IngestionTarget | undefined> {
      const target = db('documentGenerations as g')
        .join('documents as d', { 'd.orgId': 'g.orgId', 'd.id': 'g.documentId' })
        .where({ 'g.orgId': of.orgId, 'g.documentId': of.documentId, 'g.generation': of.generation })
        .whereNull('d.deletedAt')
        .select([
          ...['g.documentName', 'g.fileName', 'g.mediaType', 'g.declaredFormat', 'g.sourceFormat', 'g.sizeBytes'],
          ...['g.contentSha256', 'g.blobKey', 'g.ragConfig', 'g.conversionId', 'g.chunksTotal'],
          ...['d.generation as newestGeneration', 'd.activeGeneration', 'd.importSourceProvider'],
        ]);
      return queryFirstRow(db, ingestionTargetRowShape, target);
    },

    /** Whether the document's active generation was made from the same content as this one. */
    async isContentActive(of: IngestDocumentInput): Promise<boolean> {
      const active = GenerationModel.table(db)
        .where({ orgId: of.orgId, documentId: of.documentId })
        .whereIn('generation', document(of).select('activeGeneration'))
        .whereIn('contentSha256', generation(of).select('contentSha256'));
      return (await active.first('generation')) !== undefined;
    },

    async findDocumentState(of: IngestDocumentInput): Promise<DocumentGenerationState | undefined> {
      return queryFirstRow(
        db,
        documentGenerationStateRowShape,
        document(of).select('generation as newestGeneration', 'activeGeneration'),
      );
    },

    async listOlderOpenRuns(of: IngestDocumentInput): Promise<string[]> {
      const open = db('documentGenerations as g')
        .join('jobs as j', 'j.id', 'g.jobId')
        .where({ 'g.orgId': of.orgId, 'g.documentId': of.documentId })
        .where('g.generation', '<', of.generation)
        .whereNull('j.finishedAt')
        .select('j.id');
      return (await queryRows(db, jobId, open)).map(({ id }) => id);
    },

    /** Stores the detected format of a generation, and of its document unless its original was replaced meanwhile. */
    async setSourceFormat(of: IngestDocumentInput, sourceFormat: SourceFormat): Promise<void> {
      await generation(of).update({ sourceFormat });
      await document(of).whereIn('blobKey', generation(of).select('blobKey')).update({ sourceFormat });
    },

    /** Records the malware finding on all documents with this original; a null `signature` clears it. */
    async setMalware(original: {
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

    async setConversion(of: IngestDocumentInput, conversionId: string): Promise<boolean> {
      const changed = await generation(of)
        .whereRaw('conversion_id is distinct from ?::uuid', [conversionId])
        .update({ conversionId });
      return changed > 0;
    },

    /**
     * Locks the generation until the end of the transaction.
     * @returns undefined once the document is deleted or a newer generation was requested; `chunksTotal` is null before
     * the generation is chunked
     */
    async lockNewest(of: IngestDocumentInput): Promise<{ chunksTotal: number | null } | undefined> {
      const locked = await generation(of).forUpdate().first('chunksTotal');
      const newest = await document(of).where({ generation: of.generation }).first('id');
      return newest === undefined ? undefined : locked;
    },

    async setChunked(of: IngestDocumentInput, chunked: { chunksTotal: number; language: string }): Promise<void> {
      await generation(of).update({ ...chunked, analyzerVersion, chunkedAt: db.fn.now() });
    },

    /**
     * Finds the model, access keys and retrieval settings for the vector store. Undefined once the document is deleted
     * or a newer generation was requested.
     */
    async findPublication(of: IngestDocumentInput): Promise<GenerationPublication | undefined> {
      const published = db('documents as d')
        .join('documentGenerations as g', { 'g.documentId': 'd.id', 'g.generation': 'd.generation' })
        .where({ 'd.orgId': of.orgId, 'd.id': of.documentId, 'd.generation': of.generation })
        .whereNull('d.deletedAt')
        .select('g.embeddingModel as model', 'd.acl', 'd.retrievalSettings');
      return queryFirstRow(db, generationPublicationRowShape, published);
    },

    /**
     * Activates a generation by compare-and-set: returns false if a newer generation was requested, or if the
     * document's model, access keys or retrieval settings changed after they were published.
     */
    async activate(
      of: IngestDocumentInput,
      { model, acl, retrievalSettings }: GenerationPublication,
    ): Promise<boolean> {
      const activated = await document(of)
        .where({ generation: of.generation, acl, retrievalSettings })
        .update({
          ...{ activeGeneration: of.generation, activeEmbeddingModel: model },
          activeLanguage: db.raw('?', [generation(of).select('language')]),
          // `updatedAt` gets the current time and not `now()`, the start of the transaction, because a search asks
          // afterwards which documents changed while it ran.
          updatedAt: db.raw('clock_timestamp()'),
        });
      if (activated === 1) await generation(of).update({ activatedAt: db.fn.now() });
      return activated === 1;
    },

    async listUnneeded(of: DocumentReference): Promise<number[]> {
      const unneeded = db('documentGenerations as g')
        .join('documents as d', { 'd.orgId': 'g.orgId', 'd.id': 'g.documentId' })
        .where({ 'g.orgId': of.orgId, 'g.documentId': of.documentId })
        .whereRaw('g.generation < d.generation and g.generation is distinct from d.active_generation')
        .orderBy('g.generation')
        .select('g.generation');
      return (await queryRows(db, generationNumber, unneeded)).map(({ generation }) => generation);
    },

    async listBlobKeys(range: DocumentGenerationRange): Promise<string[]> {
      const originals = await queryRows(
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
     * Deletes generations, and conversions that become unused. Deletes chunks and postings first, in batches, because
     * there may be a million.
     */
    async delete(range: DocumentGenerationRange, signal: AbortSignal): Promise<void> {
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
      await deleteChunksOfGenerations(db, range, deleteRows, signal);
    },
  };
}

type RecognitionKey = IngestDocumentInput & { converterVersion: string };

/**
 * Stores Markdown conversions and OCR pages of originals. Documents of an organization with the same content share
 * them.
 */
export function createConversionsRepository(db: Knex) {
  return {
    async find(key: ConversionKey): Promise<ConversionSummary | undefined> {
      return ConversionModel.table(db).where(key).first('id', 'charCount', 'pageCount');
    },

    /**
     * Stores a conversion unless it exists: conversion is deterministic, so a concurrent run has stored the same one.
     * @returns undefined if it exists
     */
    async insert(conversion: NewConversion): Promise<ConversionSummary | undefined> {
      const [inserted] = await ConversionModel.table(db)
        .insert(conversion)
        .onConflict(['orgId', 'contentSha256', 'converterVersion', 'sourceFormat'])
        .ignore()
        .returning(['id', 'charCount', 'pageCount']);
      return inserted;
    },

    async readBody(orgId: string, conversionId: string): Promise<Pick<NewConversion, 'body' | 'pageMap'> | undefined> {
      return ConversionModel.table(db).where({ orgId, id: conversionId }).first('body', 'pageMap');
    },

    /**
     * Sets the page numbers of new chunks, in case a preview stored the document's page map while the chunks were being
     * computed.
     */
    async assignPageNumbers(orgId: string, conversionId: string): Promise<void> {
      // Waits for a preview that is storing the page map. A preview that starts later sets the page numbers of these
      // chunks itself.
      await ConversionModel.table(db).where({ orgId, id: conversionId }).forShare().first('id');
      await assignPageNumbers(db, { orgId, conversionId });
    },

    async deleteUnused(limit: number): Promise<number> {
      const unused = db('conversions as c')
        .whereRaw(`c.created_at < now() - interval '1 day'`)
        .whereNotExists((used) =>
          used.from('documentGenerations as g').whereRaw('g.org_id = c.org_id and g.conversion_id = c.id'),
        )
        .limit(limit)
        .select('c.id');
      return ConversionModel.query(db).whereIn('id', unused).delete();
    },

    async listRecognizedPages({ orgId, documentId, generation, converterVersion }: RecognitionKey): Promise<OcrPage[]> {
      return RecognizedPageModel.table(db)
        .where({ orgId, documentId, generation, converterVersion })
        .orderBy('pageIndex')
        .select('pageIndex', 'lines');
    },

    /** Stores a page that OCR has read. Keeps an existing page; does nothing once the generation is deleted. */
    async insertRecognizedPage(key: RecognitionKey, { pageIndex, lines }: OcrPage): Promise<void> {
      await db.raw(
        `insert into recognized_pages (org_id, document_id, generation, converter_version, page_index, lines)
         select org_id, document_id, generation, :converterVersion, :pageIndex, :lines::jsonb
         from document_generations
         where org_id = :orgId and document_id = :documentId and generation = :generation
         for key share
         on conflict do nothing`,
        { ...key, pageIndex, lines: JSON.stringify(lines) },
      );
    },

    async deleteRecognizedPages({ orgId, documentId, generation }: IngestDocumentInput): Promise<void> {
      await RecognizedPageModel.query(db).where({ orgId, documentId, generation }).delete();
    },
  };
}
