import { NIL } from 'uuid';
import type { Db } from '#src/ports/database.ts';
import type { GenerationKey, VectorHit, VectorStore } from '#src/ports/vector-store.ts';

/**
 * Chunk vectors beside the chunks, in Postgres with pgvector, searched by an exact scan of what the caller may read.
 * The access rule is a part of the query, so that a neighbour who may not be read never takes a place in the ranking.
 */
export function createPgVectorStore(db: Db): VectorStore {
  return {
    async upsert({ orgId, model, points }) {
      await db.raw(
        `insert into chunk_vectors (chunk_id, org_id, document_id, generation, model, embedding)
         select chunk_id, ?, document_id, generation, ?, embedding::vector
         from unnest(?::uuid[], ?::uuid[], ?::integer[], ?::text[]) as point (chunk_id, document_id, generation, embedding)
         on conflict (chunk_id) do update set model = excluded.model, embedding = excluded.embedding`,
        [
          orgId,
          model,
          points.map((point) => point.id),
          points.map((point) => point.documentId),
          points.map((point) => point.generation),
          points.map((point) => toLiteral(point.vector)),
        ],
      );
    },

    // Searches join the documents, which say it all.
    async publish() {},

    async search({ readable, model, vector, limit, minSimilarity, signal }) {
      signal?.throwIfAborted();
      // The distance is computed after the filter on model and size: vectors of two sizes cannot be compared at all.
      const { rows } = await db.raw<{ rows: VectorHit[] }>(
        `select chunk_id, 1 - distance as similarity
         from (
           select v.chunk_id, v.embedding <=> :query::vector as distance
           from documents d
           join chunk_vectors v
             on v.org_id = d.org_id and v.document_id = d.id and v.generation = d.active_generation
           where d.org_id = :orgId and d.acl && :acl::text[] and v.model = :model
             and vector_dims(v.embedding) = :dimensions
             and (:settings::text is null or d.retrieval_settings = :settings)
             and (:include::uuid[] is null or d.id = any (:include::uuid[]))
             and (:exclude::uuid[] is null or d.id <> all (:exclude::uuid[]))
           order by distance, v.chunk_id
           limit :limit
         ) nearest
         where 1 - distance >= :minSimilarity
         order by distance, chunk_id`,
        {
          // Not named vector: knex would take the cast for a parameter too.
          query: toLiteral(vector),
          orgId: readable.orgId,
          acl: [...readable.acl],
          model,
          dimensions: vector.length,
          settings: readable.retrievalSettings ?? null,
          include: readable.includeDocumentIds === undefined ? null : [...readable.includeDocumentIds],
          exclude: readable.excludeDocumentIds === undefined ? null : [...readable.excludeDocumentIds],
          limit,
          minSimilarity,
        },
      );
      return rows;
    },

    async fetch({ orgId, model, chunkIds }) {
      const { rows } = await db.raw<{ rows: { chunkId: string; embedding: string }[] }>(
        'select chunk_id, embedding::text from chunk_vectors where org_id = ? and model = ? and chunk_id = any (?::uuid[])',
        [orgId, model, [...chunkIds]],
      );
      return new Map(rows.map(({ chunkId, embedding }) => [chunkId, fromLiteral(embedding)]));
    },

    async findExisting({ orgId, chunkIds }) {
      const { rows } = await db.raw<{ rows: { chunkId: string }[] }>(
        'select chunk_id from chunk_vectors where org_id = ? and chunk_id = any (?::uuid[])',
        [orgId, [...chunkIds]],
      );
      return new Set(rows.map((row) => row.chunkId));
    },

    async countGenerations(generations) {
      const { rows } = await db.raw<{ rows: { count: number }[] }>(
        `select (
           select count(*) from chunk_vectors v
           where v.org_id = asked.org_id and v.document_id = asked.document_id and v.generation = asked.generation
         ) as count
         from unnest(?::uuid[], ?::uuid[], ?::integer[]) with ordinality as asked (org_id, document_id, generation, place)
         order by place`,
        [
          generations.map((of) => of.orgId),
          generations.map((of) => of.documentId),
          generations.map((of) => of.generation),
        ],
      );
      return rows.map((row) => row.count);
    },

    async listGenerations({ after, limit }) {
      const { orgId, documentId, generation } = parseKey(after);
      const { rows } = await db.raw<{ rows: GenerationKey[] }>(
        `select distinct org_id, document_id, generation
         from chunk_vectors
         where (org_id, document_id, generation) > (?::uuid, ?::uuid, ?::integer)
         order by org_id, document_id, generation
         limit ?`,
        [orgId, documentId, generation, limit],
      );
      const last = rows.length < limit ? undefined : rows.at(-1);
      return { generations: rows, next: last ? `${last.orgId}/${last.documentId}/${last.generation}` : null };
    },

    async deleteGenerations({ orgId, documentId, from = 0, before }) {
      await db.raw(
        `delete from chunk_vectors
         where org_id = ? and document_id = ? and generation >= ? and generation < coalesce(?::integer, 2147483647)`,
        [orgId, documentId, from, before],
      );
    },

    // No index is needed for an exact scan but that of the table.
    async maintain() {},
  };
}

function parseKey(text: string | null): GenerationKey {
  const [orgId = NIL, documentId = NIL, generation = 0] = text?.split('/') ?? [];
  return { orgId, documentId, generation: Number(generation) };
}

/** pgvector's text form, `[0.1,0.2]`. */
function toLiteral(vector: Float32Array): string {
  return `[${vector.join(',')}]`;
}

function fromLiteral(text: string): Float32Array {
  return Float32Array.from(text.slice(1, -1).split(','), Number);
}
