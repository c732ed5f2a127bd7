import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import type { SourceFormat } from '#src/domain/document-format.ts';
import type { Db } from '#src/ports/database.ts';
import type {
  ChunkText,
  ConversionKey,
  ConversionSummary,
  IngestionTarget,
  NewChunk,
  NewConversion,
} from './ingestion.model.ts';

/** Rows of one insert; more at once gain nothing and hold more memory. */
const CHUNKS_PER_INSERT = 500;
/** Far below the time that one statement may take, with a hundred postings to a chunk. */
const CHUNKS_PER_DELETE = 2_000;

export function createIngestionRepository(db: Db) {
  const generation = (of: IngestDocumentInput) =>
    db('documentGenerations').where({ orgId: of.orgId, documentId: of.documentId, generation: of.generation });
  const chunks = (of: IngestDocumentInput) =>
    db('chunks').where({ orgId: of.orgId, documentId: of.documentId, generation: of.generation });

  return {
    async findTarget(of: IngestDocumentInput): Promise<IngestionTarget | undefined> {
      const [target] = await db('documents as d')
        .join('documentGenerations as g', { 'g.orgId': 'd.orgId', 'g.documentId': 'd.id' })
        .where({ 'd.orgId': of.orgId, 'd.id': of.documentId, 'g.generation': of.generation })
        .select<IngestionTarget[]>([
          ...['d.name', 'd.fileName', 'd.mediaType', 'd.declaredFormat', 'd.sourceFormat', 'd.sizeBytes'],
          ...['d.contentSha256', 'd.blobKey', 'd.ragConfig', 'd.generation as newestGeneration'],
          ...['g.conversionId', 'g.chunksTotal'],
        ]);
      return target;
    },

    async setSourceFormat(of: IngestDocumentInput, sourceFormat: SourceFormat): Promise<void> {
      await db('documents')
        .where({ orgId: of.orgId, id: of.documentId, generation: of.generation })
        .update({ sourceFormat });
    },

    async findConversion(key: ConversionKey): Promise<ConversionSummary | undefined> {
      return db('conversions').where(key).first<ConversionSummary>('id', 'charCount', 'pageCount');
    },

    /** The first one stays: another run that converted the same content got the same. */
    async insertConversion(conversion: NewConversion): Promise<void> {
      await db('conversions')
        .insert(conversion)
        .onConflict(['orgId', 'contentSha256', 'converterVersion', 'sourceFormat'])
        .ignore();
    },

    async readBody(orgId: string, conversionId: string): Promise<Pick<NewConversion, 'body' | 'pageMap'> | undefined> {
      return db('conversions').where({ orgId, id: conversionId }).first('body', 'pageMap');
    },

    async setConversion(of: IngestDocumentInput, conversionId: string): Promise<void> {
      await generation(of).update({ conversionId });
    },

    /** Holds the generation until the end of the transaction. @returns how many chunks it was cut into, if it was */
    async lockGeneration(of: IngestDocumentInput): Promise<{ chunksTotal: number | null } | undefined> {
      return generation(of).forUpdate().first('chunksTotal');
    },

    async insertChunks(of: IngestDocumentInput, all: readonly NewChunk[]): Promise<void> {
      for (let start = 0; start < all.length; start += CHUNKS_PER_INSERT) {
        const batch = all.slice(start, start + CHUNKS_PER_INSERT);
        await db.raw(
          `insert into chunks (id, org_id, document_id, generation, chunk_index, content, contextual_text, chunk_kind,
                               token_count, content_offset, page_number, term_count)
           select id, ?, ?, ?, chunk_index, content, contextual_text, chunk_kind, token_count, content_offset,
                  page_number, term_count
           from unnest(?::uuid[], ?::integer[], ?::text[], ?::text[], ?::text[], ?::integer[], ?::integer[],
                       ?::integer[], ?::integer[])
             as chunk (id, chunk_index, content, contextual_text, chunk_kind, token_count, content_offset, page_number,
                       term_count)`,
          [
            of.orgId,
            of.documentId,
            of.generation,
            batch.map((chunk) => chunk.id),
            batch.map((chunk) => chunk.index),
            batch.map((chunk) => chunk.content),
            batch.map((chunk) => chunk.contextualText),
            batch.map((chunk) => chunk.chunkKind),
            batch.map((chunk) => chunk.tokenCount),
            batch.map((chunk) => chunk.contentOffset),
            batch.map((chunk) => chunk.pageNumber),
            batch.map((chunk) => chunk.termCount),
          ],
        );
        const postings = batch.flatMap((chunk) =>
          Array.from(chunk.terms, ([term, frequency]) => ({ chunkId: chunk.id, term, frequency })),
        );
        await db.raw(
          `insert into chunk_terms (org_id, term, chunk_id, frequency)
           select ?, term, chunk_id, frequency
           from unnest(?::text[], ?::uuid[], ?::integer[]) as posting (term, chunk_id, frequency)`,
          [
            of.orgId,
            postings.map((posting) => posting.term),
            postings.map((posting) => posting.chunkId),
            postings.map((posting) => posting.frequency),
          ],
        );
      }
    },

    async setChunked(of: IngestDocumentInput, chunksTotal: number): Promise<void> {
      await generation(of).update({ chunksTotal, chunkedAt: db.fn.now() });
    },

    /** In the order of the document: this is where an interrupted run goes on. */
    async listUnembedded(of: IngestDocumentInput): Promise<string[]> {
      return chunks(of).whereNull('embeddedAt').orderBy('chunkIndex').pluck('id');
    },

    async readTexts(orgId: string, ids: readonly string[]): Promise<ChunkText[]> {
      return db('chunks')
        .where({ orgId })
        .whereIn('id', ids)
        .orderBy('chunkIndex')
        .select<ChunkText[]>('id', 'contextualText', 'content');
    },

    /** Counts only what was not marked before. @returns how many chunks of the generation are embedded now */
    async markEmbedded(of: IngestDocumentInput, ids: readonly string[], model: string): Promise<number | undefined> {
      const { rows } = await db.raw<{ rows: { chunksEmbedded: number }[] }>(
        `with marked as (
           update chunks set embedded_at = now(), embedding_model = :model
           where org_id = :orgId and document_id = :documentId and generation = :generation
             and id = any (:ids::uuid[]) and embedded_at is null
           returning 1
         )
         update document_generations
         set chunks_embedded = chunks_embedded + (select count(*) from marked), embedding_model = :model
         where org_id = :orgId and document_id = :documentId and generation = :generation
         returning chunks_embedded`,
        { ...of, ids: [...ids], model },
      );
      return rows[0]?.chunksEmbedded;
    },

    /** Takes back what `markEmbedded` did. */
    async unmarkEmbedded(of: IngestDocumentInput, ids: readonly string[]): Promise<void> {
      await db.raw(
        `with unmarked as (
           update chunks set embedded_at = null, embedding_model = null
           where org_id = :orgId and document_id = :documentId and generation = :generation
             and id = any (:ids::uuid[]) and embedded_at is not null
           returning 1
         )
         update document_generations set chunks_embedded = chunks_embedded - (select count(*) from unmarked)
         where org_id = :orgId and document_id = :documentId and generation = :generation`,
        { ...of, ids: [...ids] },
      );
    },

    async listEmbedded(of: IngestDocumentInput): Promise<string[]> {
      return chunks(of).whereNotNull('embeddedAt').pluck('id');
    },

    async countEmbedded(of: IngestDocumentInput): Promise<number> {
      const [row] = await chunks(of).whereNotNull('embeddedAt').count<{ count: number }[]>();
      return row?.count ?? 0;
    },

    /** Compare-and-set on the newest generation. @returns false when a newer one was asked for meanwhile */
    async activate(of: IngestDocumentInput): Promise<boolean> {
      const flipped = await db('documents')
        .where({ orgId: of.orgId, id: of.documentId, generation: of.generation })
        .update({
          activeGeneration: of.generation,
          chunkingStale: false,
          embeddingStale: false,
          updatedAt: db.fn.now(),
        });
      await generation(of).update({ activatedAt: db.fn.now() });
      return flipped === 1;
    },

    /** With their chunks and postings, which may be a million rows: a part at a time. */
    async deleteOlderGenerations(of: IngestDocumentInput): Promise<void> {
      const older = (table: string) =>
        db(table).where({ orgId: of.orgId, documentId: of.documentId }).where('generation', '<', of.generation);
      let deleted: number;
      do {
        deleted = await db('chunks').whereIn('id', older('chunks').select('id').limit(CHUNKS_PER_DELETE)).delete();
      } while (deleted > 0);
      await older('documentGenerations').delete();
    },
  };
}
