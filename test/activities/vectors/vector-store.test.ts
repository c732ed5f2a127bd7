import { QdrantClient } from '@qdrant/js-client-rest';
import { expect } from 'chai';
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { createPgVectorStore } from '#src/adapters/vectors/pgvector.ts';
import { createQdrantVectorStore } from '#src/adapters/vectors/qdrant.ts';
import { createQdrantClient, payloadFieldEqualsCondition } from '#src/adapters/vectors/qdrant-client.ts';
import { defaultRagConfig } from '#src/domain/documents/rag-config.ts';
import type { PublishedGeneration, VectorStore } from '#src/ports/vector-store.ts';
import { addIndexedDocument, addOrganization, embeddingModel as model } from '#test/support/indexed-documents.ts';
import { dropCollections, newCollectionPrefix, testQdrantUrl, useTestDatabase } from '#test/support/services.ts';
import { seededRandom } from '../../../bench/search/random.ts';

/** `generation` is that of the vectors; the document's active one is 1. */
const newDocument = { acl: ['user:ada'], model, generation: 1, rrfK: 60, isPublished: true };
type NewDocument = typeof newDocument & { orgId: string; vectors: Float32Array[] };
type StoredDocument = PublishedGeneration & { chunkIds: string[] };
type Opened = { vectors: VectorStore; close?: () => Promise<void> };
type Readable = Parameters<VectorStore['search']>[0]['readable'];

const stores: Record<string, (db: Knex) => Opened> = {
  'in Postgres': (db) => ({ vectors: createPgVectorStore(db) }),
  "on Qdrant's engine": () => openQdrant({ url: testQdrantUrl(), apiKey: null }),
};
const { QDRANT_URL: url, QDRANT_API_KEY: apiKey = null } = process.env;
if (url) stores['on a Qdrant server'] = () => openQdrant({ url, apiKey });
else console.log('  QDRANT_URL is not set: the vector store is not tested on a Qdrant server.');

for (const [place, open] of Object.entries(stores)) {
  describe(`the vector store ${place}`, () => {
    const own = useTestDatabase();
    let vectors: VectorStore;
    let userId: string;
    let orgId: string;
    let closeStore: Opened['close'];
    before(() => {
      ({ vectors, close: closeStore } = open(own.db));
    });
    after(() => closeStore?.());
    beforeEach(async () => {
      ({ orgId, userId } = await addOrganization(own.db));
    });
    const anotherOrganization = async () => (await addOrganization(own.db)).orgId;

    const at = (degrees: number) =>
      Float32Array.of(Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180), 0);
    /** Changes the row and publishes its new state. In Postgres a search joins the row, Qdrant knows what is published. */
    async function publish(
      { orgId, documentId, generation, model }: Omit<PublishedGeneration, 'acl' | 'retrievalSettings'>,
      { acl, rrfK = 60, isPublished = true }: { acl: string[]; rrfK?: number; isPublished?: boolean },
    ): Promise<PublishedGeneration> {
      const config = defaultRagConfig({ embeddingModel: model, hasReranker: false });
      const ragConfig = JSON.stringify({ ...config, retrieval: { ...config.retrieval, rrfK } });
      const row = own.db('documents').where({ id: documentId });
      const changed = row.update({ acl, ragConfig, activeEmbeddingModel: model }).returning('retrievalSettings');
      const [{ retrievalSettings }] = await changed;
      const published = { orgId, documentId, generation, model, acl, retrievalSettings };
      if (isPublished) await vectors.publish(published);
      return published;
    }
    /** One chunk per angle, in degrees from the first axis. */
    async function addDocument(angles: number[], options: Partial<NewDocument> = {}): Promise<StoredDocument> {
      const of = { ...newDocument, orgId, vectors: angles.map(at), ...options };
      const { documentId } = await addIndexedDocument(own.db, { orgId: of.orgId, userId }, []);
      const points = of.vectors.map((vector) => ({ id: uuidv7(), documentId, generation: of.generation, vector }));
      await vectors.upsert({ orgId: of.orgId, model: of.model, points });
      return { ...(await publish({ ...of, documentId }, of)), chunkIds: points.map((point) => point.id) };
    }

    const search = (readable: Partial<Readable> = {}, options = {}) =>
      vectors.search({
        readable: { orgId, acl: ['user:ada'], ...readable },
        model,
        vector: at(0),
        limit: 10,
        minSimilarity: -1,
        ...options,
      });
    const found = async (readable?: Partial<Readable>) => (await search(readable)).map((hit) => hit.chunkId);
    const put = (documentId: string, generation: number, { id = uuidv7(), degrees = 0, of = model } = {}) =>
      vectors.upsert({ orgId, model: of, points: [{ id, documentId, generation, vector: at(degrees) }] });
    const countsOf = (documentId: string) =>
      vectors.countGenerations([1, 2, 3].map((generation) => ({ orgId, documentId, generation })));

    it('returns the nearest chunks first, equally near ones by id, within a limit and a minimum similarity', async () => {
      const { chunkIds } = await addDocument([60, 0, 180]);
      const hits = await search();
      expect(hits.map((hit) => hit.chunkId)).deep.equal([chunkIds[1], chunkIds[0], chunkIds[2]]);
      for (const [index, similarity] of [1, 0.5, -1].entries()) {
        expect(hits[index]?.similarity).closeTo(similarity, 1e-6);
      }
      expect(await search({}, { limit: 2 })).length(2);
      expect(await search({}, { minSimilarity: 0.7 })).length(1);
      const signal = AbortSignal.abort(new Error('gone'));
      expect(await search({}, { signal }).catch((error: Error) => error.message)).equal('gone');
      orgId = await anotherOrganization();
      const equal = await addDocument([30, 30, 30, 30]);
      expect(await found()).deep.equal([...equal.chunkIds].sort());
    });

    it('returns only chunks that the caller may read and asks for, and ranks them as if no others existed', async () => {
      const one = await addDocument([70], { acl: ['team:red', 'user:ada'] });
      const two = await addDocument([80], { rrfK: 10 });
      await addDocument(new Array(20).fill(1), { acl: ['user:grace'] });
      const both = [...one.chunkIds, ...two.chunkIds];
      const cases: [Partial<Readable>, string[]][] = [
        [{ acl: ['user:ada'] }, both],
        [{ acl: ['team:red'] }, one.chunkIds],
        [{ acl: ['team:blue'] }, []],
        [{ acl: [] }, []],
        [{ includeDocumentIds: [two.documentId] }, two.chunkIds],
        [{ includeDocumentIds: [] }, []],
        [{ excludeDocumentIds: [two.documentId] }, one.chunkIds],
        [{ excludeDocumentIds: [] }, both],
        [{ retrievalSettings: [one.retrievalSettings] }, one.chunkIds],
        [{ retrievalSettings: [two.retrievalSettings] }, two.chunkIds],
        [{ retrievalSettings: [one.retrievalSettings, two.retrievalSettings, '{}'] }, both],
        [{ retrievalSettings: [] }, []],
      ];
      for (const [readable, expected] of cases) {
        expect(await found(readable), JSON.stringify(readable)).deep.equal(expected);
      }
    });

    it('finds only vectors of the requested model, none of models with a similar name or another vector size', async () => {
      for (const name of ['Test-Model', 'test/model', 'test model', `${model}@2`]) {
        await addDocument([0], { model: name });
      }
      await addDocument([], { model: 'wide', vectors: [Float32Array.of(1, 0, 0, 0)] });
      expect(await found()).deep.equal([]);
      const { chunkIds } = await addDocument([0]);
      expect(await found()).deep.equal(chunkIds);
    });

    it('finds vectors only after their publication, and always by the last published access keys and settings', async () => {
      const newer = await addDocument([0], { generation: 2, isPublished: false });
      expect(await found()).deep.equal([]);
      expect(await vectors.countGenerations([newer])).deep.equal([1]);
      const document = await addDocument([20]);
      await vectors.publish(document);
      // A late batch of points does not undo it.
      await put(document.documentId, 1, { id: document.chunkIds[0] ?? '', degrees: 20 });
      expect(await found()).deep.equal(document.chunkIds);
      for (const [acl, readers] of [
        [['team:red'], ['team:red']],
        [[], ['team:red', 'user:ada']],
      ] as const) {
        await publish(document, { acl: [...acl] });
        expect(await found(), 'with the old key').deep.equal([]);
        expect(await found({ acl: [...readers] })).length(acl.length);
      }
      const { retrievalSettings } = await publish(document, { acl: ['user:ada'], rrfK: 10 });
      expect(await found({ retrievalSettings: [document.retrievalSettings] })).deep.equal([]);
      expect(await found({ retrievalSettings: [retrievalSettings] })).length(1);
    });

    it('returns vectors as they were last written, and tells which chunks have a vector, whatever its model', async () => {
      const document = await addDocument([20, 40], { isPublished: false });
      const [first = '', second = ''] = document.chunkIds;
      await put(document.documentId, 1, { id: first, degrees: 70 });
      const stored = await vectors.fetch({ orgId, model, chunkIds: [...document.chunkIds, uuidv7()] });
      expect([...stored.keys()]).members([first, second]);
      for (const [index, number] of at(70).entries()) expect(stored.get(first)?.[index]).closeTo(number, 1e-6);
      expect(await vectors.countGenerations([document])).deep.equal([2]);
      const other = await addDocument([0], { model: 'other-model' });
      const known = [first, ...other.chunkIds];
      expect(await vectors.findExisting({ orgId, chunkIds: [...known, uuidv7()] })).deep.equal(new Set(known));
    });

    it('splits large writes into several requests', async () => {
      const wide = Array.from({ length: 60 }, (_, index) => new Float32Array(4_000).fill(0.1, 0, index + 1));
      const document = await addDocument([], { model: 'very-wide', vectors: wide });
      expect(await vectors.countGenerations([document])).deep.equal([60]);
    });

    it('deletes the older generations of a document, a single generation, or all generations, for every model', async () => {
      const { documentId } = await addDocument([0]);
      for (const generation of [2, 3]) await put(documentId, generation);
      await vectors.deleteGenerations({ orgId, documentId, before: 2 });
      expect(await countsOf(documentId)).deep.equal([0, 1, 1]);
      await vectors.deleteGenerations({ orgId, documentId, before: null });
      expect(await countsOf(documentId)).deep.equal([0, 0, 0]);

      const other = await addDocument([0]);
      for (const generation of [2, 3]) await put(other.documentId, generation, { of: 'older-model' });
      await vectors.deleteGenerations({ orgId, documentId: other.documentId, from: 2, before: 3 });
      expect(await countsOf(other.documentId)).deep.equal([1, 0, 1]);
    });

    it('lists every stored generation, page by page', async () => {
      const stored = new Set<string>();
      for (const org of [orgId, await anotherOrganization()]) {
        for (const generation of [1, 3]) {
          const { documentId } = await addDocument([0, 10], { orgId: org, generation });
          stored.add(`${org} ${documentId} ${generation}`);
        }
      }
      const listed = new Set<string>();
      for (let after: string | null | undefined; after !== null; ) {
        const from = { after: after ?? null, limit: 20 };
        const page: Awaited<ReturnType<VectorStore['listGenerations']>> = await vectors.listGenerations(from);
        for (const each of page.generations) listed.add(`${each.orgId} ${each.documentId} ${each.generation}`);
        after = page.next;
      }
      expect([...listed]).include.members([...stored]);
    });

    it('returns nothing for an unknown model or unknown chunks', async () => {
      const of = { orgId, documentId: uuidv7(), generation: 1 };
      expect(await vectors.countGenerations([])).deep.equal([]);
      expect(await vectors.countGenerations([of])).deep.equal([0]);
      expect(await vectors.fetch({ orgId, model: 'unheard-of', chunkIds: [uuidv7()] })).property('size', 0);
      expect(await vectors.findExisting({ orgId, chunkIds: [] })).property('size', 0);
      await vectors.upsert({ orgId, model: 'unheard-of', points: [] });
      await vectors.publish({ ...of, model: 'unheard-of', acl: [], retrievalSettings: '' });
      await vectors.deleteGenerations({ orgId, documentId: of.documentId, before: null });
      await vectors.maintain();
    });

    it("keeps organizations from finding, reading, publishing or deleting each other's points", async () => {
      const foreign = await addDocument([0], { orgId: await anotherOrganization() });
      const { documentId, chunkIds } = foreign;
      expect(await found()).deep.equal([]);
      expect(await found({ includeDocumentIds: [documentId] })).deep.equal([]);
      expect(await vectors.fetch({ orgId, model, chunkIds })).property('size', 0);
      expect(await vectors.findExisting({ orgId, chunkIds })).property('size', 0);
      expect(await vectors.countGenerations([{ ...foreign, orgId }])).deep.equal([0]);
      await vectors.publish({ ...foreign, orgId, acl: ['user:eve'] });
      await vectors.deleteGenerations({ orgId, documentId, before: null });
      expect(await found({ orgId: foreign.orgId })).deep.equal(chunkIds);
      expect(await found({ orgId: foreign.orgId, acl: ['user:eve'] })).deep.equal([]);
    });
  });
}

it('the vector store can count, delete and write in a Qdrant collection that a killed process left without indexes', async () => {
  const client = { url: testQdrantUrl(), apiKey: null, collectionPrefix: newCollectionPrefix() };
  const points = createQdrantClient(client);
  const collection = points.collectionOf('model');
  await new QdrantClient({ url: client.url, checkCompatibility: false }).createCollection(collection, {
    vectors: { size: 2, distance: 'Cosine' },
    strict_mode_config: { enabled: true, unindexed_filtering_retrieve: false, unindexed_filtering_update: false },
  });
  const selection = { orgId: 'acme', must: [payloadFieldEqualsCondition('document_id', 'd')] };
  expect(await points.count(collection, selection)).equal(0);
  await points.delete(collection, selection);
  const point = { id: crypto.randomUUID(), vector: [1, 0], payload: { document_id: 'd', generation: 1 } };
  const onlyIf = payloadFieldEqualsCondition('generation', 1);
  await points.upsert(collection, { orgId: 'acme', points: [point], onlyIf }, 2);
  expect(await points.count(collection, selection)).equal(1);
  await dropCollections(client, client.collectionPrefix);
});

const chunksEach = 10;
const selectivities = [1, 3, 10, 40, 100];

describe('the HNSW index in Postgres', () => {
  const own = useTestDatabase();
  let owner: Awaited<ReturnType<typeof addOrganization>>;
  const random = seededRandom(7);
  const randomVector = (dimensions = 24, center = new Float32Array(dimensions)) =>
    center.map((value) => value + random.normal());

  before(async () => {
    owner = await addOrganization(own.db);
  });
  afterEach(async () => {
    await own.db('chunkVectors').delete();
    await createPgVectorStore(own.db).maintain();
  });

  async function add(vectors: VectorStore, count: number, of: string = model, dimensions = 24): Promise<void> {
    for (let index = 0; index < count; index += 1) {
      const acl = selectivities.filter((percent) => index % 100 < percent).map((percent) => `user:${percent}`);
      const { orgId, documentId, generation } = await addIndexedDocument(own.db, owner, [], { acl });
      // Chunks of a document resemble each other, so that the chunks near a query are readable together or not at all.
      const center = randomVector(dimensions).map((value) => 2 * value);
      const points = Array.from({ length: chunksEach }, () => {
        return { id: uuidv7(), documentId, generation, vector: randomVector(dimensions, center) };
      });
      await vectors.upsert({ orgId, model: of, points });
    }
  }
  const indexes = (): Promise<string[]> =>
    own.db('pg_indexes').whereLike('indexname', 'chunk_vectors_hnsw_%').pluck('indexname');
  const query = (percent: number, vector = randomVector(), of: string = model) => ({
    ...{ readable: { orgId: owner.orgId, acl: [`user:${percent}`] }, model: of, vector, limit: 10, minSimilarity: -1 },
  });

  it('finds what an exact search finds, whatever share of the chunks the caller may read', async () => {
    const vectors = createPgVectorStore(own.db, { exactLimit: 0 });
    await add(vectors, 300);
    await vectors.maintain();
    for (const percent of selectivities) {
      let found = 0;
      for (let round = 0; round < 20; round += 1) {
        const asked = query(percent);
        // Compares all vectors in full precision, for which there is no index.
        const { rows } = await own.db.raw<{ rows: { chunk_id: string }[] }>(
          `select chunk_id from chunk_vectors v join documents d on d.id = v.document_id and d.acl @> array[?]
           order by embedding <=> ?::vector limit 10`,
          [`user:${percent}`, `[${asked.vector.join(',')}]`],
        );
        const hits = await vectors.search(asked);
        expect(hits).deep.equal(hits.toSorted((a, b) => b.similarity - a.similarity));
        found += hits.filter((hit) => rows.some((row) => row.chunk_id === hit.chunkId)).length;
      }
      expect(found / (20 * 10), `at ${percent} %`).at.least(0.99);
    }
    // If the index finds too few hits, a scan replaces it.
    expect(await vectors.search({ ...query(100), limit: 100_000 })).length(300 * chunksEach);
  });

  it('is created for a model with many vectors, and dropped when few are left', async () => {
    const vectors = createPgVectorStore(own.db, { exactLimit: 15 });
    for (const [name, dimensions, count] of [
      [`it's "a" model? :yes`, 24, 1],
      ['long', 3_072, 1],
      ["above pgvector's limit", 4_096, 0],
    ] as const) {
      for (const expected of [0, count, count]) {
        if ((await own.db('chunkVectors')).length < 20) await add(vectors, 1, name, dimensions);
        await vectors.maintain();
        expect(await indexes(), name).length(expected);
      }
      expect(await vectors.search(query(100, randomVector(dimensions), name))).length(10);
      await own.db('chunkVectors').delete();
      await vectors.maintain();
      expect(await indexes()).length(0);
    }
  });

  it('is rebuilt after an interrupted build', async () => {
    const vectors = createPgVectorStore(own.db, { exactLimit: 0 });
    await add(vectors, 2);
    await vectors.maintain();
    const [name] = await indexes();
    await own.db.raw('update pg_index set indisvalid = false where indexrelid = ?::regclass', [name ?? '']);
    await vectors.maintain();
    const { rows } = await own.db.raw(
      `select indisvalid from pg_index join pg_class c on c.oid = indexrelid where starts_with(relname, 'chunk_vectors_hnsw_')`,
    );
    expect(rows).deep.equal([{ indisvalid: true }]);
  });
});

/** With a prefix of its own on a server that tests share. */
function openQdrant(server: { url: string; apiKey: string | null }): Opened {
  const collectionPrefix = newCollectionPrefix();
  const close = () => dropCollections(server, collectionPrefix);
  return { vectors: createQdrantVectorStore({ ...server, collectionPrefix }), close };
}
