import { createHash } from 'node:crypto';
import type { Knex } from 'knex';
import { fromSql, toSql } from 'pgvector';
import { NIL } from 'uuid';
import { readableDocumentBindings, readableDocumentConditionSql } from '#src/adapters/postgres/readable.ts';
import {
  bigintColumn,
  booleanColumn,
  defineRowShape,
  doubleColumn,
  integerColumn,
  pickColumns,
  queryFirstRow,
  queryOneRow,
  queryRows,
  queryRowsWithTimeout,
  type SqlRow,
  type StatementRunner,
  textColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { GenerationKey, VectorHit, VectorStore } from '#src/ports/vector-store.ts';
import { ChunkVectorModel } from './pgvector.model.ts';

const counted = defineRowShape({ count: bigintColumn() });
const vectorHit = defineRowShape({ chunkId: uuidColumn(), similarity: doubleColumn() });
const generationKey = pickColumns(ChunkVectorModel, 'orgId', 'documentId', 'generation');

type VectorQuery = Parameters<VectorStore['search']>[0];

/**
 * Number of vectors above which a model gets an HNSW index. Scanning this many vectors takes 25 to 80 ms, depending on
 * the load.
 */
const EXACT_LIMIT = 50_000;

/**
 * The index is searched if at least this share of its vectors is readable. It skips unreadable vectors only after it has
 * chosen its candidates: with 10 % of 80,000 readable it misses 39 % of the ten nearest, and 11 % with the largest
 * candidate list. A scan of the 10 % takes 8 ms.
 */
const MIN_INDEXED_SHARE = 1 / 3;

/** More readable vectors than these are never scanned (0.3 s): the index may then miss some of the nearest. */
const MAX_SCANNED = 200_000;

/** TTL of the cached index list and counts. Outdated values can only make a search slower, not wrong. */
const CACHE_TTL_MS = 60_000;

/**
 * Chunk vectors in Postgres. The access rule is part of the query, so unreadable chunks do not push readable ones out
 * of the ranking. Scans the readable vectors, which is exact; only if they are many and a large share of all, it uses
 * the model's HNSW index.
 */
export function createPgVectorStore(db: Knex, { exactLimit = EXACT_LIMIT, timeoutMs = 10_000 } = {}): VectorStore {
  const indexes = cached(CACHE_TTL_MS, () => listVectorIndexes(db));
  const countReadable = cached(CACHE_TTL_MS, async (_key: string, query: VectorQuery) => {
    const [row] = await queryRowsWithTimeout(
      timeoutMs,
      db,
      counted,
      `select count(*) from (
         select from documents d
         join chunk_vectors v on v.org_id = d.org_id and v.document_id = d.id and v.generation = d.active_generation
         where ${readableDocumentConditionSql} and v.model = :model
         limit :bound
       ) readable`,
      { ...bindingsOf(query), bound: MAX_SCANNED + 1 },
    );
    return row?.count ?? 0;
  });

  /** Size of the candidate list of an index search, or null if a scan of the readable vectors serves the query better. */
  async function chooseCandidates(query: VectorQuery): Promise<number | null> {
    const stored = (await indexes('')).get(indexName(query.model, query.vector.length));
    if (stored === undefined) return null;
    // Excluded documents are not part of the key of the cached count, because they are few.
    const { excludeDocumentIds: _few, ...counted } = query.readable;
    // Hashed, because the key can list thousands of documents.
    const key = createHash('sha256')
      .update(JSON.stringify([query.model, counted]))
      .digest('base64');
    const readable = await countReadable(key, query);
    const share = readable / Math.max(stored, 1);
    if (share < MIN_INDEXED_SHARE && readable <= MAX_SCANNED) return null;
    // Measured on 80,000 vectors: this finds 0.99 of the nearest, whether all vectors are readable or 40 % of them.
    return Math.round(Math.min((20 * query.limit) / share ** 2, 1_000));
  }

  async function scan(query: VectorQuery): Promise<VectorHit[]> {
    // Compares only vectors of the same model and dimensions, because Postgres reports an error for vectors of
    // different sizes.
    return queryRowsWithTimeout(
      timeoutMs,
      db,
      vectorHit,
      `select v.chunk_id, 1 - (v.embedding <=> :query::vector) as similarity
       from documents d
       join chunk_vectors v on v.org_id = d.org_id and v.document_id = d.id and v.generation = d.active_generation
       where ${readableDocumentConditionSql} and v.model = :model and vector_dims(v.embedding) = :dimensions
       order by v.embedding <=> :query::vector, v.chunk_id
       limit :limit`,
      bindingsOf(query),
    );
  }

  async function searchIndex(query: VectorQuery, candidates: number): Promise<VectorHit[]> {
    const dimensions = query.vector.length;
    return db.transaction(async (trx) => {
      await trx.raw(
        `set local hnsw.iterative_scan = strict_order;
         set local hnsw.ef_search = ${candidates};
         set local hnsw.max_scan_tuples = 40000;
         set local enable_sort = off`,
      );
      return queryRowsWithTimeout(
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
             where d.id = v.document_id and d.active_generation = v.generation and ${readableDocumentConditionSql}
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

    // No-op: searches read the current access keys from `documents`, so vectors hold no copy that would have to be
    // updated.
    async publish() {},

    async search(query) {
      query.signal?.throwIfAborted();
      const candidates = await chooseCandidates(query);
      let hits = candidates === null ? [] : await searchIndex(query, candidates);
      // If the index yields too few hits, few vectors are readable, so a scan of them is cheap.
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
      const counts = await queryRows(
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
      const generations = await queryRows(
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
      const changed = await maintainVectorIndexes(db, exactLimit);
      indexes.clear();
      return changed;
    },
  };
}

function bindingsOf({ readable, model, vector, limit }: VectorQuery) {
  return {
    ...readableDocumentBindings(readable),
    // The binding must not be named `vector`: knex would replace the cast `::vector`, too.
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

/** The pgvector package does not accept typed arrays. */
function toVectorText(vector: Float32Array): string {
  return String(toSql(Array.from(vector)));
}

function fromVectorText(text: string): Float32Array {
  const numbers = fromSql(text);
  if (!Array.isArray(numbers)) throw new Error('The stored vector is sparse, which is not supported.');
  return Float32Array.from(numbers);
}

/** Runs statements on one connection of the pool, but without a transaction. */
async function withOwnConnection(db: Knex, work: (own: StatementRunner) => Promise<void>): Promise<void> {
  const connection = await db.client.acquireConnection();
  const raw = (sql: string, bindings: readonly Knex.RawBinding[] = []) => db.raw(sql, bindings).connection(connection);
  try {
    await work({ raw: raw as Knex['raw'] });
  } finally {
    await db.client.releaseConnection(connection);
  }
}

const vectorIndex = defineRowShape({ name: textColumn(), isValid: booleanColumn(), points: doubleColumn() });
const support = defineRowShape({ isThere: booleanColumn() });
const lock = defineRowShape({ isOurs: booleanColumn() });

const storedModel = defineRowShape({
  ...pickColumns(ChunkVectorModel, 'model').columns,
  dimensions: integerColumn(),
  points: bigintColumn(),
});
type StoredModel = SqlRow<typeof storedModel>;

/** pgvector's limit for the dimensions of indexed half-precision vectors. */
const MAX_INDEXED_DIMENSIONS = 4_000;
const PREFIX = 'chunk_vectors_hnsw_';

/** Indexes half-precision vectors, which halves the memory; searches sort the hits again by the full vectors. */
const indexedEmbedding = (dimensions: number): string => `embedding::halfvec(${dimensions})`;

/** The index name has a hash of the model, because a model name can have any characters. */
function indexName(model: string, dimensions: number): string {
  return `${PREFIX}${createHash('sha256').update(model).digest('hex').slice(0, 16)}_${dimensions}`;
}

async function listVectorIndexes(db: Knex): Promise<Map<string, number>> {
  const usable = (await listIndexes(db)).filter((index) => index.isValid);
  return new Map(usable.map(({ name, points }) => [name, points]));
}

function listIndexes(db: StatementRunner): Promise<SqlRow<typeof vectorIndex>[]> {
  return queryRows(
    db,
    vectorIndex,
    `select c.relname::text as name, i.indisvalid as is_valid, c.reltuples::float as points
     from pg_index i join pg_class c on c.oid = i.indexrelid
     where i.indrelid = 'chunk_vectors'::regclass and starts_with(c.relname, ?)`,
    [PREFIX],
  );
}

/**
 * Creates an HNSW index for each model with more than `limit` vectors, and drops the index below half of that. A lock
 * lets only one process do this at a time.
 * @returns the number of indexes that were created or dropped
 */
async function maintainVectorIndexes(db: Knex, limit: number): Promise<number> {
  let changed = 0;
  // `create index concurrently` cannot run in a transaction, and `set` only changes its own connection.
  await withOwnConnection(db, async (own) => {
    // pgvector below 0.8 has no iterative index scans, which filtered searches need.
    const vectors = await queryFirstRow(
      own,
      support,
      `select string_to_array(extversion, '.')::integer[] >= '{0,8}' as is_there from pg_extension where extname = 'vector'`,
    );
    if (!vectors?.isThere) return;
    const { isOurs } = await queryOneRow(own, lock, 'select pg_try_advisory_lock(hashtext(?)) as is_ours', [PREFIX]);
    if (!isOurs) return;
    try {
      await own.raw('set statement_timeout = 0');
      await own.raw("set maintenance_work_mem = '512MB'");
      const stored = await queryRows(
        own,
        storedModel,
        `select model, count(*) as points,
                (select vector_dims(embedding) from chunk_vectors f where f.model = v.model limit 1) as dimensions
         from chunk_vectors v group by model`,
      );
      const indexable = stored.filter(({ dimensions }) => dimensions <= MAX_INDEXED_DIMENSIONS);
      const nameOf = ({ model, dimensions }: StoredModel) => indexName(model, dimensions);
      const kept = new Set(indexable.filter(({ points }) => points >= limit / 2).map(nameOf));
      const there = new Set<string>();
      for (const { name, isValid } of await listIndexes(own)) {
        if (isValid && kept.has(name)) {
          there.add(name);
          continue;
        }
        await own.raw(`drop index concurrently if exists ${name}`);
        changed += 1;
      }
      for (const of of indexable.filter((each) => each.points > limit && !there.has(nameOf(each)))) {
        await own.raw(definition(of).replaceAll('?', '\\?'));
        changed += 1;
      }
    } finally {
      await own.raw('reset statement_timeout');
      await own.raw('reset maintenance_work_mem');
      await own.raw('select pg_advisory_unlock(hashtext(?))', [PREFIX]);
    }
  });
  return changed;
}

/** The HNSW index covers only vectors with the expected dimensions: others would make its creation fail. */
function definition({ model, dimensions }: StoredModel): string {
  return `create index concurrently ${indexName(model, dimensions)} on chunk_vectors
          using hnsw ((${indexedEmbedding(dimensions)}) halfvec_cosine_ops) with (m = 16, ef_construction = 128)
          where model = '${model.replaceAll("'", "''")}' and vector_dims(embedding) = ${dimensions}`;
}

const MAX_CACHED_KEYS = 10_000;

/** Caches the results of `load` per key for `ttlMs`; concurrent calls share a result. Failures are not cached. */
function cached<Arguments extends unknown[], Result>(
  ttlMs: number,
  load: (key: string, ...rest: Arguments) => Promise<Result>,
): ((key: string, ...rest: Arguments) => Promise<Result>) & { clear(): void } {
  const known = new Map<string, { result: Promise<Result>; until: number }>();

  function get(key: string, ...rest: Arguments): Promise<Result> {
    const now = performance.now();
    const before = known.get(key);
    if (before !== undefined && before.until > now) return before.result;
    if (known.size >= MAX_CACHED_KEYS) known.clear();
    const result = load(key, ...rest);
    known.set(key, { result, until: now + ttlMs });
    result.catch(() => known.delete(key));
    return result;
  }

  return Object.assign(get, { clear: () => known.clear() });
}
