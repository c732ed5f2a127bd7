import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import { createPgVectorStore } from '#src/adapters/vectors/pgvector.ts';
import { defaultRagConfig } from '#src/domain/rag-config.ts';
import type { Db } from '#src/ports/database.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import { createTestDatabase } from '#test/support/services.ts';

const model = 'test-model';

describe('the vector store in Postgres', () => {
  let database: Awaited<ReturnType<typeof createTestDatabase>>;
  let db: Db;
  let vectors: VectorStore;
  let orgId: string;
  const userId = uuidv7();

  before(async () => {
    database = await createTestDatabase();
    db = createDatabase({ url: database.url, maxConnections: 5, applicationName: 'test' });
    vectors = createPgVectorStore(db);
    await db('users').insert({ id: userId, email: 'ada@example.com', displayName: 'Ada' });
  });
  after(async () => {
    await db.destroy();
    await database.drop();
  });
  beforeEach(async () => {
    orgId = await addOrganization();
  });

  async function addOrganization(): Promise<string> {
    const id = uuidv7();
    await db('organizations').insert({ id, name: 'Org' });
    return id;
  }

  /** A document in its generation 1, with one chunk for each angle (in degrees from the first axis). */
  async function addDocument(
    angles: number[],
    options: { acl?: string[]; org?: string; generation?: number; model?: string } = {},
  ): Promise<{ documentId: string; chunkIds: string[] }> {
    const org = options.org ?? orgId;
    const documentId = uuidv7();
    await db('documents').insert({
      id: documentId,
      orgId: org,
      name: 'Doc',
      fileName: 'doc.txt',
      sizeBytes: 1,
      contentSha256: 'x',
      blobKey: 'x',
      generation: 1,
      activeGeneration: 1,
      ragConfig: JSON.stringify(defaultRagConfig({ embeddingModel: model, hasReranker: false })),
      acl: options.acl ?? ['user:ada'],
      createdBy: userId,
      updatedBy: userId,
    });
    const points = angles.map((angle) => ({
      id: uuidv7(),
      documentId,
      generation: options.generation ?? 1,
      vector: at(angle),
    }));
    await vectors.upsert({ orgId: org, model: options.model ?? model, points });
    return { documentId, chunkIds: points.map((point) => point.id) };
  }

  const at = (degrees: number) =>
    Float32Array.of(Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180), 0);

  const search = (readable: { acl?: string[]; includeDocumentIds?: string[]; excludeDocumentIds?: string[] } = {}) =>
    vectors.search({
      readable: { orgId, acl: ['user:ada'], ...readable },
      model,
      vector: at(0),
      limit: 10,
      minSimilarity: -1,
    });
  const idsOf = (hits: { chunkId: string }[]) => hits.map((hit) => hit.chunkId);

  it('finds the nearest first, with their cosine similarity', async () => {
    const { chunkIds } = await addDocument([60, 0, 180]);
    const hits = await search();
    expect(idsOf(hits)).deep.equal([chunkIds[1], chunkIds[0], chunkIds[2]]);
    for (const [index, similarity] of [1, 0.5, -1].entries()) {
      expect(hits[index]?.similarity).closeTo(similarity, 1e-6);
    }
  });

  it('stops at the limit and at the least similarity', async () => {
    await addDocument([0, 30, 60, 90]);
    const query = { readable: { orgId, acl: ['user:ada'] }, model, vector: at(0) };
    expect(await vectors.search({ ...query, limit: 2, minSimilarity: -1 })).length(2);
    expect(await vectors.search({ ...query, limit: 10, minSimilarity: 0.7 })).length(2);
  });

  it('shows only what one of the keys opens, and what may not be read takes no place', async () => {
    const far = await addDocument([80], { acl: ['team:red', 'user:ada'] });
    for (let count = 0; count < 20; count++) await addDocument([1], { acl: ['user:grace'] });
    expect(idsOf(await search())).deep.equal(far.chunkIds);
    expect(idsOf(await search({ acl: ['team:red'] }))).deep.equal(far.chunkIds);
    expect(await search({ acl: ['team:blue'] })).deep.equal([]);
    expect(await search({ acl: [] })).deep.equal([]);
  });

  it('never shows another organization, not even for the same keys', async () => {
    await addDocument([0], { org: await addOrganization() });
    expect(await search()).deep.equal([]);
  });

  it('shows the active generation only', async () => {
    await addDocument([0], { generation: 2 });
    expect(await search()).deep.equal([]);
  });

  it('includes and excludes documents', async () => {
    const [one, two] = [await addDocument([0]), await addDocument([10])];
    expect(idsOf(await search({ includeDocumentIds: [two.documentId] }))).deep.equal(two.chunkIds);
    expect(idsOf(await search({ excludeDocumentIds: [two.documentId] }))).deep.equal(one.chunkIds);
    expect(await search({ includeDocumentIds: [] })).deep.equal([]);
  });

  it('keeps models apart, also when their vectors have other sizes', async () => {
    const { documentId } = await addDocument([0], { model: 'other-model' });
    const wide = { id: uuidv7(), documentId, generation: 1, vector: Float32Array.of(1, 0, 0, 0) };
    await vectors.upsert({ orgId, model: 'wide-model', points: [wide] });
    expect(await search()).deep.equal([]);
  });

  it('gives vectors back as they were written, and the newer when a point is written twice', async () => {
    const { documentId, chunkIds } = await addDocument([20, 40]);
    const [first = ''] = chunkIds;
    await vectors.upsert({ orgId, model, points: [{ id: first, documentId, generation: 1, vector: at(70) }] });
    const stored = await vectors.fetch({ orgId, model, chunkIds: [...chunkIds, uuidv7()] });
    expect(stored.size).equal(2);
    expect(stored.get(first)).deep.equal(at(70));
    expect(await vectors.countGenerations([{ orgId, documentId, generation: 1 }])).deep.equal([2]);
  });

  it('deletes the older generations of a document, or all', async () => {
    const { documentId } = await addDocument([0]);
    const newer = [2, 3].map((generation) => ({ id: uuidv7(), documentId, generation, vector: at(0) }));
    await vectors.upsert({ orgId, model, points: newer });
    const counts = () => vectors.countGenerations([1, 2, 3].map((generation) => ({ orgId, documentId, generation })));

    await vectors.deleteGenerations({ orgId, documentId, before: 2 });
    expect(await counts()).deep.equal([0, 1, 1]);
    await vectors.deleteGenerations({ orgId, documentId, before: null });
    expect(await counts()).deep.equal([0, 0, 0]);
  });

  it('deletes one generation between others', async () => {
    const { documentId } = await addDocument([0]);
    const newer = [2, 3].map((generation) => ({ id: uuidv7(), documentId, generation, vector: at(0) }));
    await vectors.upsert({ orgId, model, points: newer });
    await vectors.deleteGenerations({ orgId, documentId, from: 2, before: 3 });
    const generations = [1, 2, 3].map((generation) => ({ orgId, documentId, generation }));
    expect(await vectors.countGenerations(generations)).deep.equal([1, 0, 1]);
  });

  it('lists every generation, page by page', async () => {
    const stored = new Set<string>();
    for (const org of [orgId, await addOrganization()]) {
      for (const generation of [1, 3]) {
        const { documentId } = await addDocument([0, 10], { org, generation });
        stored.add(`${org} ${documentId} ${generation}`);
      }
    }
    const listed = new Set<string>();
    for (let after: string | null | undefined; after !== null; ) {
      const page: Awaited<ReturnType<VectorStore['listGenerations']>> = await vectors.listGenerations({
        after: after ?? null,
        limit: 1,
      });
      for (const of of page.generations) listed.add(`${of.orgId} ${of.documentId} ${of.generation}`);
      after = page.next;
    }
    expect([...listed]).include.members([...stored]);
  });

  it('tells which chunks have a vector, within the organization', async () => {
    const { chunkIds } = await addDocument([0, 10]);
    const [known = ''] = chunkIds;
    expect(await vectors.findExisting({ orgId, chunkIds: [known, uuidv7()] })).deep.equal(new Set([known]));
    expect(await vectors.findExisting({ orgId: await addOrganization(), chunkIds })).deep.equal(new Set());
  });
});
