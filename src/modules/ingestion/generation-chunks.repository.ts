import type { Knex } from 'knex';
import { bigint } from '#src/adapters/postgres/columns.ts';
import { firstRow, oneRow, pick, rows, shape } from '#src/adapters/postgres/shapes.ts';
import { indexWords } from '#src/adapters/postgres/word-index.ts';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import { ChunkModel } from '#src/modules/documents/documents.model.ts';
import { type ChunkText, chunkText, GenerationModel, type NewChunk } from './ingestion.model.ts';

/** Rows of one insert; more at once gain nothing and hold more memory. */
const CHUNKS_PER_INSERT = 500;

const progress = pick(GenerationModel, 'chunksEmbedded');
const counted = shape({ count: bigint() });

/** The chunks of one generation while it is made. */
export function createGenerationChunksRepository(db: Knex) {
  const chunks = (of: IngestDocumentInput) =>
    ChunkModel.table(db).where({ orgId: of.orgId, documentId: of.documentId, generation: of.generation });

  return {
    /** With the words of the chunks. To be called in a transaction, last. */
    async insert(of: IngestDocumentInput, all: readonly NewChunk[]): Promise<void> {
      for (let start = 0; start < all.length; start += CHUNKS_PER_INSERT) {
        const batch = all.slice(start, start + CHUNKS_PER_INSERT);
        await db.raw(
          `insert into chunks (id, org_id, document_id, generation, chunk_index, content, contextual_text, chunk_kind,
                               token_count, content_offset, page_number, term_count, text_sha256)
           select id, ?, ?, ?, chunk_index, content, contextual_text, chunk_kind, token_count, content_offset,
                  page_number, term_count, text_sha256
           from unnest(?::uuid[], ?::integer[], ?::text[], ?::text[], ?::text[], ?::integer[], ?::integer[],
                       ?::integer[], ?::integer[], ?::bytea[])
             as chunk (id, chunk_index, content, contextual_text, chunk_kind, token_count, content_offset, page_number,
                       term_count, text_sha256)`,
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
            batch.map((chunk) => chunk.textSha256),
          ],
        );
      }
      await indexWords(db, of, all);
    },

    /** In the order of the document: this is where an interrupted run goes on. */
    async listUnembedded(of: IngestDocumentInput, limit: number): Promise<string[]> {
      return chunks(of).whereNull('embeddedAt').orderBy('chunkIndex').limit(limit).pluck('id');
    },

    async readTexts(orgId: string, ids: readonly string[]): Promise<ChunkText[]> {
      const texts = ChunkModel.table(db)
        .where({ orgId })
        .whereIn('id', ids)
        .orderBy('chunkIndex')
        .select('id', 'contextualText', 'content');
      return rows(db, chunkText, texts);
    },

    /**
     * Counts only what was not marked before.
     * @returns how many chunks of the generation are embedded now; undefined, and nothing is marked, when the document
     * was deleted or a newer generation was asked for
     */
    async markEmbedded(of: IngestDocumentInput, ids: readonly string[], model: string): Promise<number | undefined> {
      const row = await firstRow(
        db,
        progress,
        `with current as (
           select 1 from documents
           where org_id = :orgId and id = :documentId and generation = :generation and deleted_at is null
         ),
         marked as (
           update chunks set embedded_at = now(), embedding_model = :model
           where org_id = :orgId and document_id = :documentId and generation = :generation
             and id = any (:ids::uuid[]) and embedded_at is null and exists (select from current)
           returning 1
         )
         update document_generations
         set chunks_embedded = chunks_embedded + (select count(*) from marked), embedding_model = :model
         where org_id = :orgId and document_id = :documentId and generation = :generation
           and exists (select from current)
         returning chunks_embedded`,
        { ...of, ids: [...ids], model },
      );
      return row?.chunksEmbedded;
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
      return (await oneRow(db, counted, chunks(of).whereNotNull('embeddedAt').count())).count;
    },
  };
}
