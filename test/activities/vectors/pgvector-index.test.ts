import { expect } from 'chai';
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import { createPgVectorStore } from '#src/adapters/vectors/pgvector.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import { addIndexedDocument, addOrganization, embeddingModel } from '#test/support/indexed-documents.ts';
import { createTestDatabase } from '#test/support/services.ts';
import { seededRandom } from '../../../bench/search/random.ts';

const chunksEach = 10;
const selectivities = [1, 3, 10, 40, 100];

describe('the HNSW index in Postgres', () => {
  let database: Awaited<ReturnType<typeof createTestDatabase>>;
  let db: Knex;
  let owner: Awaited<ReturnType<typeof addOrganization>>;
  const random = seededRandom(7);
  const randomVector = (dimensions: number) => Float32Array.from({ length: dimensions }, () => random.normal());

  before(async () => {
    database = await createTestDatabase();
    db = createDatabase({ url: database.url, maxConnections: 5, applicationName: 'test' });
    owner = await addOrganization(db);
  });
  after(async () => {
    await db.destroy();
    await database.drop();
  });
  afterEach(async () => {
    await db('chunkVectors').delete();
    await createPgVectorStore(db).maintain();
  });

  async function addDocuments(vectors: VectorStore, count: number, of: { model?: string; dimensions?: number } = {}) {
    const { model = embeddingModel, dimensions = 24 } = of;
    for (let index = 0; index < count; index += 1) {
      const acl = selectivities.filter((percent) => index % 100 < percent).map((percent) => `user:${percent}`);
      const { orgId, documentId, generation } = await addIndexedDocument(db, owner, [], { acl });
      const points = Array.from({ length: chunksEach }, () => {
        return { id: uuidv7(), documentId, generation, vector: randomVector(dimensions) };
      });
      await vectors.upsert({ orgId, model, points });
    }
  }

  async function indexes(): Promise<Record<string, string>> {
    const rows: { indexname: string; indexdef: string }[] = await db('pg_indexes')
      .where({ tablename: 'chunk_vectors' })
      .whereLike('indexname', 'chunk_vectors_hnsw_%');
    return Object.fromEntries(rows.map((row) => [row.indexname, row.indexdef]));
  }

  async function indexScans(): Promise<number> {
    await db.raw('select pg_stat_force_next_flush()');
    const { rows } = await db.raw<{ rows: { scans: number }[] }>(
      `select coalesce(sum(idx_scan), 0) as scans from pg_stat_user_indexes
       where starts_with(indexrelname, 'chunk_vectors_hnsw_')`,
    );
    return rows[0]?.scans ?? 0;
  }

  const query = (percent: number, vector: Float32Array, model = embeddingModel) => ({
    ...{ readable: { orgId: owner.orgId, acl: [`user:${percent}`] }, model, vector, limit: 10, minSimilarity: -1 },
  });

  it('finds what an exact search finds, whatever share is readable', async () => {
    const exact = createPgVectorStore(db);
    const indexed = createPgVectorStore(db, { exactLimit: 0 });
    await addDocuments(indexed, 300);
    await indexed.maintain();
    for (const percent of selectivities) {
      let found = 0;
      let expected = 0;
      for (let round = 0; round < 20; round += 1) {
        const asked = query(percent, randomVector(24));
        const right = new Set((await exact.search(asked)).map((hit) => hit.chunkId));
        const hits = await indexed.search(asked);
        expect(hits).deep.equal(hits.toSorted((a, b) => b.similarity - a.similarity));
        found += hits.filter((hit) => right.has(hit.chunkId)).length;
        expected += right.size;
      }
      expect(found / expected, `at ${percent} %`).at.least(0.99);
    }
    expect(await indexScans()).at.least(100);
  });

  it('is used only if more vectors are readable than are scanned', async () => {
    const vectors = createPgVectorStore(db, { exactLimit: 100 });
    await addDocuments(vectors, 100);
    await vectors.maintain();
    const before = await indexScans();
    expect(await vectors.search(query(10, randomVector(24)))).length(10);
    expect(await indexScans()).equal(before);
    expect(await vectors.search(query(40, randomVector(24)))).length(10);
    expect(await indexScans()).equal(before + 1);
  });

  it('is replaced by a scan if it finds too few hits', async () => {
    const vectors = createPgVectorStore(db, { exactLimit: 5 });
    await addDocuments(vectors, 100);
    await vectors.maintain();
    const hits = await vectors.search({ ...query(1, randomVector(24)), limit: 20 });
    expect(hits).length(chunksEach);
  });

  it('is created for a large model of any name, and dropped when the model shrinks', async () => {
    const vectors = createPgVectorStore(db, { exactLimit: 15 });
    const model = `it's "a" model? :yes`;
    await addDocuments(vectors, 2);
    await addDocuments(vectors, 1, { model });
    await vectors.maintain();
    expect(Object.values(await indexes())).length(1);
    await addDocuments(vectors, 1, { model });
    await vectors.maintain();
    await vectors.maintain();
    expect(Object.values(await indexes())).length(2);
    expect(await vectors.search(query(100, randomVector(24), model))).length(10);
    await db('chunkVectors').where({ model }).delete();
    await vectors.maintain();
    expect(Object.values(await indexes())).length(1);
  });

  it("covers long vectors, and leaves those above pgvector's limit to the scan", async () => {
    const vectors = createPgVectorStore(db, { exactLimit: 0 });
    await addDocuments(vectors, 2, { model: 'long', dimensions: 3_072 });
    await addDocuments(vectors, 2, { model: 'longer', dimensions: 4_096 });
    await vectors.maintain();
    expect(Object.values(await indexes())).length(1);
    expect(await vectors.search(query(100, randomVector(3_072), 'long'))).length(10);
    expect(await vectors.search(query(100, randomVector(4_096), 'longer'))).length(10);
  });

  it('is rebuilt after an interruption', async () => {
    const vectors = createPgVectorStore(db, { exactLimit: 0 });
    await addDocuments(vectors, 2);
    await vectors.maintain();
    await db.raw(
      `update pg_index set indisvalid = false where indexrelid = '${Object.keys(await indexes())[0]}'::regclass`,
    );
    await vectors.maintain();
    const { rows } = await db.raw<{ rows: { indisvalid: boolean }[] }>(
      `select indisvalid from pg_index where indexrelid = '${Object.keys(await indexes())[0]}'::regclass`,
    );
    expect(rows).deep.equal([{ indisvalid: true }]);
  });
});
