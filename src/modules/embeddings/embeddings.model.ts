import type { Knex } from 'knex';
import { NIL } from 'uuid';
import { tableModel } from '#src/adapters/postgres/base-model.ts';
import {
  byteaColumn,
  integerColumn,
  pickColumns,
  queryFirstRow,
  queryOneRow,
  type SqlRow,
  sweptPageOf,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';

export class CachedEmbeddingModel extends tableModel(
  'embeddings',
  {
    orgId: uuidColumn(),
    model: textColumn(),
    textSha256: byteaColumn(),
    vector: byteaColumn(),
    createdAt: timestampColumn(),
  },
  ['orgId', 'model', 'textSha256'],
) {}

export class EmbeddingDimensionsModel extends tableModel(
  'embedding_models',
  {
    model: textColumn(),
    dimensions: integerColumn(),
    createdAt: timestampColumn(),
  },
  'model',
) {}

type CachedEmbedding = { textSha256: Buffer; vector: Float32Array };

const embeddingKey = pickColumns(CachedEmbeddingModel, 'orgId', 'model', 'textSha256');
const sweptPage = sweptPageOf(embeddingKey);
export type CachedEmbeddingKey = SqlRow<typeof embeddingKey>;

const knownDimensions = pickColumns(EmbeddingDimensionsModel, 'dimensions');

export function createEmbeddingsRepository(db: Knex) {
  const cached = (orgId: string, model: string, hashes: readonly Buffer[]) =>
    CachedEmbeddingModel.table(db)
      .where({ orgId, model })
      .whereRaw('text_sha256 = any (?::bytea[])', [[...hashes]]);

  return {
    async find(orgId: string, model: string, hashes: readonly Buffer[]): Promise<Map<string, Float32Array>> {
      const rows = await cached(orgId, model, hashes).select('textSha256', 'vector');
      return new Map(rows.map(({ textSha256, vector }) => [textSha256.toString('hex'), toFloats(vector)]));
    },

    async listCached(orgId: string, model: string, hashes: readonly Buffer[]): Promise<Buffer[]> {
      const rows = await cached(orgId, model, hashes).select('textSha256');
      return rows.map(({ textSha256 }) => textSha256);
    },

    async insert(orgId: string, model: string, embeddings: readonly CachedEmbedding[]): Promise<void> {
      // Sorts the rows by key, so that concurrent inserts of the same texts do not deadlock.
      const inOrder = [...embeddings].sort((a, b) => a.textSha256.compare(b.textSha256));
      await db.raw(
        `insert into embeddings (org_id, model, text_sha256, vector)
         select ?, ?, text_sha256, vector from unnest(?::bytea[], ?::bytea[]) as embedding (text_sha256, vector)
         on conflict do nothing`,
        [orgId, model, inOrder.map(({ textSha256 }) => textSha256), inOrder.map(({ vector }) => toBytes(vector))],
      );
    },

    async deleteUnusedOf(orgId: string, hashes: readonly Buffer[]): Promise<void> {
      await db.raw(
        `delete from embeddings e
         where e.org_id = ? and e.text_sha256 = any (?::bytea[])
           and not exists (select from chunks c where c.org_id = e.org_id and c.text_sha256 = e.text_sha256)`,
        [orgId, [...hashes]],
      );
    },

    /**
     * Checks the next `limit` cached vectors after the key `after`, and deletes those older than a day whose text no
     * chunk has. Skips organizations with a running ingestion that has no chunks yet, because semantic chunking caches
     * the vectors of sentences first.
     * @returns `next` is the last key checked, or null at the end of the table
     */
    async deleteUnusedAfter(
      after: CachedEmbeddingKey | null,
      limit: number,
    ): Promise<{ deleted: number; next: CachedEmbeddingKey | null }> {
      const last = await queryFirstRow(
        db,
        sweptPage,
        `with page as (
           select org_id, model, text_sha256, created_at from embeddings
           where (org_id, model, text_sha256) > (:orgId::uuid, :model, :textSha256::bytea)
           order by org_id, model, text_sha256
           limit :limit
         ),
         cutting as materialized (
           select g.org_id from jobs j
           join document_generations g on g.org_id = j.org_id and g.document_id = j.document_id and g.job_id = j.id
           where j.kind = 'ingest' and j.finished_at is null and g.chunked_at is null
         ),
         unused as (
           delete from embeddings e using page p
           where e.org_id = p.org_id and e.model = p.model and e.text_sha256 = p.text_sha256
             and p.created_at < now() - interval '1 day'
             and not exists (select from cutting c where c.org_id = p.org_id)
             and not exists (select from chunks c where c.org_id = p.org_id and c.text_sha256 = p.text_sha256)
           returning 1
         )
         select org_id, model, text_sha256, (select count(*) from page)::integer as checked,
                (select count(*) from unused)::integer as deleted
         from page
         order by org_id desc, model desc, text_sha256 desc
         limit 1`,
        { orgId: NIL, model: '', textSha256: Buffer.alloc(0), ...after, limit },
      );
      if (last === undefined) return { deleted: 0, next: null };
      const { checked, deleted, ...key } = last;
      return { deleted, next: checked < limit ? null : key };
    },

    async fixDimensions(model: string, dimensions: number): Promise<number> {
      const models = () => EmbeddingDimensionsModel.table(db);
      await models().insert({ model, dimensions }).onConflict('model').ignore();
      return (await queryOneRow(db, knownDimensions, models().where({ model }).select('dimensions'))).dimensions;
    },
  };
}

/** No conversion is needed: stored vectors are little-endian, as are all platforms that this service runs on. */
function toBytes(vector: Float32Array): Buffer {
  return Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength);
}

/**
 * Copies the bytes of a vector, because a `Float32Array` needs an alignment of four bytes, which the Postgres driver's
 * buffers may lack.
 */
function toFloats(bytes: Buffer): Float32Array {
  return new Float32Array(Uint8Array.from(bytes).buffer);
}
