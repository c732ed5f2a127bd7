import { createHash } from 'node:crypto';
import type { Knex } from 'knex';
import { bigint, boolean, double, integer, type Row, text } from '#src/adapters/postgres/columns.ts';
import { firstRow, oneRow, pick, rows, type Statements, shape } from '#src/adapters/postgres/shapes.ts';
import { ChunkVectorModel } from './pgvector.model.ts';

/** Lends a connection of the pool to `work`, whose statements are in no transaction. */
async function withOwnConnection(db: Knex, work: (own: Statements) => Promise<void>): Promise<void> {
  const connection = await db.client.acquireConnection();
  const raw = (sql: string, bindings: readonly Knex.RawBinding[] = []) => db.raw(sql, bindings).connection(connection);
  try {
    await work({ raw: raw as Knex['raw'] });
  } finally {
    await db.client.releaseConnection(connection);
  }
}

const vectorIndex = shape({ name: text(), isValid: boolean(), points: double() });
const support = shape({ isThere: boolean() });
const lock = shape({ isOurs: boolean() });

/** What is stored of a model, and the index that it has, or would have. */
const storedModel = shape({ ...pick(ChunkVectorModel, 'model').columns, dimensions: integer(), points: bigint() });
type StoredModel = Row<typeof storedModel>;

/** More than this pgvector cannot index. */
const MAX_INDEXED_DIMENSIONS = 4_000;
const PREFIX = 'chunk_vectors_hnsw_';

/** The half-precision form that is indexed: half of the memory, and the order is that of the whole vectors again. */
export const indexedEmbedding = (dimensions: number): string => `embedding::halfvec(${dimensions})`;

/** Of a model's name anything may be in it. */
export function indexName(model: string, dimensions: number): string {
  return `${PREFIX}${createHash('sha256').update(model).digest('hex').slice(0, 16)}_${dimensions}`;
}

/** @returns about how many points each index has that can be used now, by its name */
export async function listVectorIndexes(db: Knex): Promise<Map<string, number>> {
  const usable = (await listIndexes(db)).filter((index) => index.isValid);
  return new Map(usable.map(({ name, points }) => [name, points]));
}

function listIndexes(db: Statements): Promise<Row<typeof vectorIndex>[]> {
  return rows(
    db,
    vectorIndex,
    `select c.relname::text as name, i.indisvalid as is_valid, c.reltuples::float as points
     from pg_index i join pg_class c on c.oid = i.indexrelid
     where i.indrelid = 'chunk_vectors'::regclass and starts_with(c.relname, ?)`,
    [PREFIX],
  );
}

/**
 * An HNSW index for each model with more than `limit` points, none for one with less than half of that. They are made
 * beside the work that goes on, by one process at a time; one that was interrupted is made again.
 */
export async function maintainVectorIndexes(db: Knex, limit: number): Promise<void> {
  // An index is not made in a transaction, and settings are those of a connection.
  await withOwnConnection(db, async (own) => {
    // Older versions cannot search an index under a filter, and have no half-precision vectors.
    const vectors = await firstRow(
      own,
      support,
      `select string_to_array(extversion, '.')::integer[] >= '{0,8}' as is_there from pg_extension where extname = 'vector'`,
    );
    if (!vectors?.isThere) return;
    const { isOurs } = await oneRow(own, lock, 'select pg_try_advisory_lock(hashtext(?)) as is_ours', [PREFIX]);
    if (!isOurs) return;
    try {
      await own.raw('set statement_timeout = 0');
      await own.raw("set maintenance_work_mem = '512MB'");
      const stored = await rows(
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
        if (isValid && kept.has(name)) there.add(name);
        else await own.raw(`drop index concurrently if exists ${name}`);
      }
      for (const of of indexable.filter(({ points }) => points > limit)) {
        if (!there.has(nameOf(of))) await own.raw(definition(of).replaceAll('?', '\\?'));
      }
    } finally {
      await own.raw('reset statement_timeout');
      await own.raw('reset maintenance_work_mem');
      await own.raw('select pg_advisory_unlock(hashtext(?))', [PREFIX]);
    }
  });
}

/** A vector of another length, which no index could take, is none of its business. */
function definition({ model, dimensions }: StoredModel): string {
  return `create index concurrently ${indexName(model, dimensions)} on chunk_vectors
          using hnsw ((${indexedEmbedding(dimensions)}) halfvec_cosine_ops) with (m = 16, ef_construction = 128)
          where model = '${model.replaceAll("'", "''")}' and vector_dims(embedding) = ${dimensions}`;
}
