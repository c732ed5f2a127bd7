import type { Knex } from 'knex';
import { fromSql, toSql } from 'pgvector';
import { NIL } from 'uuid';
import { bigint, double, uuid } from '#src/adapters/postgres/columns.ts';
import { isReadable, readableValues } from '#src/adapters/postgres/readable.ts';
import { pick, rows, rowsWithin, shape } from '#src/adapters/postgres/shapes.ts';
import type { GenerationKey, VectorHit, VectorStore } from '#src/ports/vector-store.ts';
import { ChunkVectorModel } from './pgvector.model.ts';
import { indexedEmbedding, indexName, listVectorIndexes, maintainVectorIndexes } from './pgvector-index.ts';

/** So many different questions are remembered at once. */
const MAX_KEYS = 10_000;

/** Asks once for each key in `forMs`, for all who ask meanwhile too. What fails is asked again. */
export function remembered<Arguments extends unknown[], Result>(
  forMs: number,
  ask: (key: string, ...rest: Arguments) => Promise<Result>,
): ((key: string, ...rest: Arguments) => Promise<Result>) & { forget(): void } {
  const known = new Map<string, { result: Promise<Result>; until: number }>();

  function get(key: string, ...rest: Arguments): Promise<Result> {
    const now = performance.now();
    const before = known.get(key);
    if (before !== undefined && before.until > now) return before.result;
    if (known.size >= MAX_KEYS) known.clear();
    const result = ask(key, ...rest);
    known.set(key, { result, until: now + forMs });
    result.catch(() => known.delete(key));
    return result;
  }

  return Object.assign(get, { forget: () => known.clear() });
}

const counted = shape({ count: bigint() });
const vectorHit = shape({ chunkId: uuid(), similarity: double() });
const generationKey = pick(ChunkVectorModel, 'orgId', 'documentId', 'generation');

type VectorQuery = Parameters<VectorStore['search']>[0];

/** A model with more points than this gets an index. Reading as many took 80 ms, 25 ms of them on a machine at rest. */
const EXACT_LIMIT = 50_000;

/**
 * Following an index takes what it finds on its way that may not be read, which is a limit · stored / readable; a scan
 * takes what may be read. Both took the same time where readable was this, times the root of limit · stored.
 */
const SCAN_SHARE = 4;

/** How long it is taken for known what there is to read, and to use: it changes the way of a search, not its results. */
const KNOWN_FOR_MS = 60_000;

/**
 * Chunk vectors beside the chunks, in Postgres with pgvector. The access rule is a part of the query, so that a
 * neighbour who may not be read never takes a place in the ranking. What a caller may read is scanned, which is exact;
 * where that is much, their model's HNSW index is followed until enough of them are found.
 * @param options.exactLimit up to how many points are always scanned
 * @param options.timeoutMs how long a query of a search may take before it ends with `service_unavailable`
 */
export function createPgVectorStore(db: Knex, { exactLimit = EXACT_LIMIT, timeoutMs = 10_000 } = {}): VectorStore {
  const indexes = remembered(KNOWN_FOR_MS, () => listVectorIndexes(db));
  const countReadable = remembered(KNOWN_FOR_MS, async (_key: string, query: VectorQuery) => {
    const [row] = await rowsWithin(
      timeoutMs,
      db,
      counted,
      `select count(*) from (
         select from documents d
         join chunk_vectors v on v.org_id = d.org_id and v.document_id = d.id and v.generation = d.active_generation
         where ${isReadable} and v.model = :model
         limit :bound
       ) readable`,
      { ...bindingsOf(query), bound: exactLimit + 1 },
    );
    return row?.count ?? 0;
  });

  /** Whether the index is there, and worth following. */
  async function hasIndexFor(query: VectorQuery): Promise<boolean> {
    const stored = (await indexes('')).get(indexName(query.model, query.vector.length));
    if (stored === undefined) return false;
    const { orgId, acl, includeDocumentIds, retrievalSettings = [] } = query.readable;
    // Excluded documents are few: they do not count.
    const key = [orgId, query.model, ...retrievalSettings, '', ...acl, '', ...(includeDocumentIds ?? [])].join(' ');
    const readable = await countReadable(key, query);
    return readable > Math.min(exactLimit, SCAN_SHARE * Math.sqrt(query.limit * stored));
  }

  async function scan(query: VectorQuery): Promise<VectorHit[]> {
    // The distance is computed after the filter on model and size: vectors of two sizes cannot be compared at all.
    return rowsWithin(
      timeoutMs,
      db,
      vectorHit,
      `select v.chunk_id, 1 - (v.embedding <=> :query::vector) as similarity
       from documents d
       join chunk_vectors v on v.org_id = d.org_id and v.document_id = d.id and v.generation = d.active_generation
       where ${isReadable} and v.model = :model and vector_dims(v.embedding) = :dimensions
       order by v.embedding <=> :query::vector, v.chunk_id
       limit :limit`,
      bindingsOf(query),
    );
  }

  /** Nearest first by the index, each looked up in its document, until there are enough or it has gone on for long. */
  async function followIndex(query: VectorQuery): Promise<VectorHit[]> {
    const dimensions = query.vector.length;
    return db.transaction(async (trx) => {
      await trx.raw(
        `set local hnsw.iterative_scan = strict_order;
         set local hnsw.ef_search = ${Math.min(Math.max(query.limit, 100), 1_000)};
         set local hnsw.max_scan_tuples = 40000;
         set local enable_sort = off`,
      );
      return rowsWithin(
        timeoutMs,
        trx,
        vectorHit,
        `select near.chunk_id, 1 - (near.embedding <=> :query::vector) as similarity
         from (
           select v.* from (
             select * from chunk_vectors
             where model = :model and vector_dims(embedding) = ${dimensions}
             order by ${indexedEmbedding(dimensions)} <=> :query::halfvec(${dimensions})
           ) v
           cross join lateral (
             select from documents d
             where d.id = v.document_id and d.active_generation = v.generation and ${isReadable}
             limit 1
           ) d
           limit :limit
         ) near
         order by near.embedding <=> :query::vector, near.chunk_id`,
        bindingsOf(query),
      );
    });
  }

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
          points.map((point) => toVectorText(point.vector)),
        ],
      );
    },

    // Searches join the documents, which say it all.
    async publish() {},

    async search(query) {
      query.signal?.throwIfAborted();
      let hits = (await hasIndexFor(query)) ? await followIndex(query) : [];
      // Where too little of what is near may be read, all that may be read is not much.
      if (hits.length < query.limit) hits = await scan(query);
      return hits.filter(({ similarity }) => similarity >= query.minSimilarity);
    },

    async fetch({ orgId, model, chunkIds }) {
      const stored = await ChunkVectorModel.table(db)
        .where({ orgId, model })
        .whereRaw('chunk_id = any (?::uuid[])', [[...chunkIds]])
        .select('chunkId', 'embedding');
      return new Map(stored.map(({ chunkId, embedding }) => [chunkId, fromVectorText(embedding)]));
    },

    async findExisting({ orgId, chunkIds }) {
      const stored = await ChunkVectorModel.table(db)
        .where({ orgId })
        .whereRaw('chunk_id = any (?::uuid[])', [[...chunkIds]])
        .select('chunkId');
      return new Set(stored.map((row) => row.chunkId));
    },

    async countGenerations(generations) {
      const counts = await rows(
        db,
        counted,
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
      return counts.map((row) => row.count);
    },

    async listGenerations({ after, limit }) {
      const { orgId, documentId, generation } = parseKey(after);
      const generations = await rows(
        db,
        generationKey,
        `select distinct org_id, document_id, generation
         from chunk_vectors
         where (org_id, document_id, generation) > (?::uuid, ?::uuid, ?::integer)
         order by org_id, document_id, generation
         limit ?`,
        [orgId, documentId, generation, limit],
      );
      const last = generations.length < limit ? undefined : generations.at(-1);
      return { generations, next: last ? `${last.orgId}/${last.documentId}/${last.generation}` : null };
    },

    async deleteGenerations({ orgId, documentId, from = 0, before }) {
      await db.raw(
        `delete from chunk_vectors
         where org_id = ? and document_id = ? and generation >= ? and generation < coalesce(?::integer, 2147483647)`,
        [orgId, documentId, from, before],
      );
    },

    async maintain() {
      await maintainVectorIndexes(db, exactLimit);
      indexes.forget();
    },
  };
}

function bindingsOf({ readable, model, vector, limit }: VectorQuery) {
  return {
    ...readableValues(readable),
    // Not named vector: knex would take the cast for a parameter too.
    query: toVectorText(vector),
    model,
    dimensions: vector.length,
    limit,
  };
}

function parseKey(text: string | null): GenerationKey {
  const [orgId = NIL, documentId = NIL, generation = 0] = text?.split('/') ?? [];
  return { orgId, documentId, generation: Number(generation) };
}

/** A typed array is no array for pgvector's package. */
function toVectorText(vector: Float32Array): string {
  return String(toSql(Array.from(vector)));
}

function fromVectorText(text: string): Float32Array {
  const numbers = fromSql(text);
  if (!Array.isArray(numbers)) throw new Error('the stored vector is sparse');
  return Float32Array.from(numbers);
}
