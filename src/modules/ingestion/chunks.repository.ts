import type { Knex } from 'knex';
import { NIL } from 'uuid';
import { indexChunkWords } from '#src/adapters/postgres/chunks.ts';
import {
  bigintColumn,
  defineRowShape,
  pickColumns,
  queryFirstRow,
  queryOneRow,
  queryRows,
  type SqlRow,
  sweptPageOf,
} from '#src/adapters/postgres/shapes.ts';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import { ChunkModel } from '#src/modules/documents/documents.model.ts';
import {
  type ChunkText,
  ContextualTextModel,
  chunkTextRowShape,
  GenerationModel,
  type NewChunk,
} from './ingestion.model.ts';

const CHUNKS_PER_INSERT = 500;

const progress = pickColumns(GenerationModel, 'chunksEmbedded');
const counted = defineRowShape({ count: bigintColumn() });

const chunkContextKey = pickColumns(
  ContextualTextModel,
  'orgId',
  'conversionId',
  'model',
  'promptVersion',
  'chunkSha256',
);
const sweptPage = sweptPageOf(chunkContextKey);
export type ChunkContextKey = SqlRow<typeof chunkContextKey>;

/** Identifies the conversion, the model and the prompt version for which a chunk context was written. */
export type ChunkContextSource = Omit<ChunkContextKey, 'chunkSha256'>;

export function createChunksRepository(db: Knex) {
  const chunks = (of: IngestDocumentInput) =>
    ChunkModel.table(db).where({ orgId: of.orgId, documentId: of.documentId, generation: of.generation });

  return {
    /**
     * Inserts chunks and indexes their words. Call it last in a transaction, because it locks the organization's
     * keyword index until the end of the transaction.
     */
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
      await indexChunkWords(db, of, all);
    },

    async listUnembedded(of: IngestDocumentInput, limit: number): Promise<string[]> {
      return chunks(of).whereNull('embeddedAt').orderBy('chunkIndex').limit(limit).pluck('id');
    },

    async readTexts(orgId: string, ids: readonly string[]): Promise<ChunkText[]> {
      const texts = ChunkModel.table(db)
        .where({ orgId })
        .whereIn('id', ids)
        .orderBy('chunkIndex')
        .select('id', 'contextualText', 'content');
      return queryRows(db, chunkTextRowShape, texts);
    },

    /**
     * Marks chunks as embedded, and counts only chunks that were not marked before.
     * @returns how many chunks of the generation are embedded now; undefined, without marking any, once the document is
     * deleted or a newer generation was requested
     */
    async markEmbedded(of: IngestDocumentInput, ids: readonly string[], model: string): Promise<number | undefined> {
      const row = await queryFirstRow(
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
      return (await queryOneRow(db, counted, chunks(of).whereNotNull('embeddedAt').count())).count;
    },
  };
}

export function createChunkContextsRepository(db: Knex) {
  return {
    async find(source: ChunkContextSource, hashes: readonly Buffer[]): Promise<Map<string, string>> {
      const known = await ContextualTextModel.table(db)
        .where(source)
        .whereRaw('chunk_sha256 = any (?::bytea[])', [[...hashes]])
        .select('chunkSha256', 'situation');
      return new Map(known.map(({ chunkSha256, situation }) => [chunkSha256.toString('hex'), situation]));
    },

    /** Stores a chunk context. Keeps an existing context; does nothing once the conversion is deleted. */
    async insert(key: ChunkContextKey, context: string): Promise<void> {
      await db.raw(
        `insert into contextual_texts (org_id, conversion_id, model, prompt_version, chunk_sha256, situation)
         select org_id, id, :model, :promptVersion, :chunkSha256, :context
         from conversions where org_id = :orgId and id = :conversionId
         on conflict do nothing`,
        { ...key, context },
      );
    },

    /**
     * Checks the next `limit` chunk contexts after the key `after`. Deletes those older than a day whose text no chunk
     * of the conversion has, unless a generation of the conversion is still to be chunked.
     * @returns `next` is the last key checked, or null at the end of the table
     */
    async deleteUnusedAfter(
      after: ChunkContextKey | null,
      limit: number,
    ): Promise<{ deleted: number; next: ChunkContextKey | null }> {
      const last = await queryFirstRow(
        db,
        sweptPage,
        `with page as (
           select org_id, conversion_id, model, prompt_version, chunk_sha256, created_at from contextual_texts
           where (org_id, conversion_id, model, prompt_version, chunk_sha256)
             > (:orgId::uuid, :conversionId::uuid, :model, :promptVersion::integer, :chunkSha256::bytea)
           order by org_id, conversion_id, model, prompt_version, chunk_sha256
           limit :limit
         ),
         made as materialized (
           select g.conversion_id, sha256(convert_to(c.content, 'UTF8')) as chunk_sha256, g.chunked_at is null as is_coming
           from (select distinct org_id, conversion_id from page where created_at < now() - interval '1 day') body
           join document_generations g on g.org_id = body.org_id and g.conversion_id = body.conversion_id
           left join chunks c
             on c.org_id = g.org_id and c.document_id = g.document_id and c.generation = g.generation
         ),
         unused as (
           delete from contextual_texts t using page p
           where t.org_id = p.org_id and t.conversion_id = p.conversion_id and t.model = p.model
             and t.prompt_version = p.prompt_version and t.chunk_sha256 = p.chunk_sha256
             and p.created_at < now() - interval '1 day'
             and not exists (
               select from made m
               where m.conversion_id = p.conversion_id and (m.is_coming or m.chunk_sha256 = p.chunk_sha256)
             )
           returning 1
         )
         select org_id, conversion_id, model, prompt_version, chunk_sha256,
                (select count(*) from page)::integer as checked, (select count(*) from unused)::integer as deleted
         from page
         order by org_id desc, conversion_id desc, model desc, prompt_version desc, chunk_sha256 desc
         limit 1`,
        { orgId: NIL, conversionId: NIL, model: '', promptVersion: 0, chunkSha256: Buffer.alloc(0), ...after, limit },
      );
      if (last === undefined) return { deleted: 0, next: null };
      const { checked, deleted, ...key } = last;
      return { deleted, next: checked < limit ? null : key };
    },
  };
}
