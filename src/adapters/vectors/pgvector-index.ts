import { createHash } from 'node:crypto';
import type { Db } from '#src/ports/database.ts';

/** What is stored of a model, and the index that it has, or would have. */
type StoredModel = { model: string; dimensions: number; points: number };

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
export async function listVectorIndexes(db: Db): Promise<Map<string, number>> {
  const usable = (await listIndexes(db)).filter((index) => index.isValid);
  return new Map(usable.map(({ name, points }) => [name, points]));
}

async function listIndexes(db: Db): Promise<{ name: string; isValid: boolean; points: number }[]> {
  const { rows } = await db.raw<{ rows: { name: string; isValid: boolean; points: number }[] }>(
    `select c.relname as name, i.indisvalid as is_valid, c.reltuples as points
     from pg_index i join pg_class c on c.oid = i.indexrelid
     where i.indrelid = 'chunk_vectors'::regclass and starts_with(c.relname, ?)`,
    [PREFIX],
  );
  return rows;
}

/**
 * An HNSW index for each model with more than `limit` points, none for one with less than half of that. They are made
 * beside the work that goes on, by one process at a time; one that was interrupted is made again.
 */
export async function maintainVectorIndexes(db: Db, limit: number): Promise<void> {
  await withOwnConnection(db, async (run) => {
    // Older versions cannot search an index under a filter, and have no half-precision vectors.
    const [support] = await run<{ isThere: boolean }>(
      `select string_to_array(extversion, '.')::integer[] >= '{0,8}' as is_there from pg_extension where extname = 'vector'`,
    );
    if (!support?.isThere) return;
    const [turn] = await run<{ isOurs: boolean }>(`select pg_try_advisory_lock(hashtext('${PREFIX}')) as is_ours`);
    if (!turn?.isOurs) return;
    try {
      await run('set statement_timeout = 0');
      await run("set maintenance_work_mem = '512MB'");
      const stored = await run<StoredModel>(
        `select model, count(*) as points,
                (select vector_dims(embedding) from chunk_vectors f where f.model = v.model limit 1) as dimensions
         from chunk_vectors v group by model`,
      );
      const indexable = stored.filter(({ dimensions }) => dimensions <= MAX_INDEXED_DIMENSIONS);
      const nameOf = ({ model, dimensions }: StoredModel) => indexName(model, dimensions);
      const kept = new Set(indexable.filter(({ points }) => points >= limit / 2).map(nameOf));
      const there = new Set<string>();
      for (const { name, isValid } of await listIndexes(db)) {
        if (isValid && kept.has(name)) there.add(name);
        else await run(`drop index concurrently if exists ${name}`);
      }
      for (const of of indexable.filter(({ points }) => points > limit)) {
        if (!there.has(nameOf(of))) await run(definition(of));
      }
    } finally {
      await run('reset statement_timeout');
      await run('reset maintenance_work_mem');
      await run(`select pg_advisory_unlock(hashtext('${PREFIX}'))`);
    }
  });
}

/** A vector of another length, which no index could take, is none of its business. */
function definition({ model, dimensions }: StoredModel): string {
  return `create index concurrently ${indexName(model, dimensions)} on chunk_vectors
          using hnsw ((${indexedEmbedding(dimensions)}) halfvec_cosine_ops) with (m = 16, ef_construction = 128)
          where model = '${model.replaceAll("'", "''")}' and vector_dims(embedding) = ${dimensions}`;
}

type Run = <Row>(sql: string) => Promise<Row[]>;

/** An index is not made in a transaction, and settings are those of a connection. */
async function withOwnConnection(db: Db, work: (run: Run) => Promise<void>): Promise<void> {
  const connection = await db.client.acquireConnection();
  try {
    await work(async <Row>(sql: string) => {
      const { rows } = await db.raw<{ rows: Row[] }>(sql.replaceAll('?', '\\?')).connection(connection);
      return rows;
    });
  } finally {
    await db.client.releaseConnection(connection);
  }
}
