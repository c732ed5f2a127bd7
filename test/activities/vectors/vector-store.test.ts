import { expect } from 'chai';
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { createPgVectorStore } from '#src/adapters/vectors/pgvector.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import { openQdrant } from '#test/support/qdrant.ts';
import { seeded } from '#test/support/seeded.ts';
import { testQdrantUrl } from '#test/support/services.ts';
import {
  createVectorFixture,
  testModel as model,
  type NewDocument,
  type StoredDocument,
  type VectorFixture,
} from '#test/support/vector-fixture.ts';

type Opened = { vectors: VectorStore; close?: () => Promise<void> };

const stores: Record<string, (db: Knex) => Opened> = {
  'in Postgres': (db) => ({ vectors: createPgVectorStore(db) }),
  "on Qdrant's engine": () => openQdrant({ url: testQdrantUrl(), apiKey: null }),
};
const { QDRANT_URL: url, QDRANT_API_KEY: apiKey = null } = process.env;
if (url) stores['on a Qdrant server'] = () => openQdrant({ url, apiKey });
else console.log('  QDRANT_URL is not set: the vector store is not tested on a Qdrant server.');

for (const [place, open] of Object.entries(stores)) {
  describe(`the vector store ${place}`, () => {
    let fixture: VectorFixture;
    let vectors: VectorStore;
    let closeStore: Opened['close'];
    let orgId: string;

    before(async () => {
      fixture = await createVectorFixture();
      ({ vectors, close: closeStore } = open(fixture.db));
    });
    after(async () => {
      await closeStore?.();
      await fixture.close();
    });
    beforeEach(async () => {
      orgId = await fixture.addOrganization();
    });

    const at = (degrees: number) =>
      Float32Array.of(Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180), 0);

    /** One chunk per angle, in degrees from the first axis. */
    const addDocument = (angles: number[], options: Partial<NewDocument> = {}): Promise<StoredDocument> =>
      fixture.addDocument(vectors, { orgId, vectors: angles.map(at), ...options });

    type Readable = Parameters<VectorStore['search']>[0]['readable'];
    const search = (readable: Partial<Readable> = {}) =>
      vectors.search({
        readable: { orgId, acl: ['user:ada'], ...readable },
        ...{ model, vector: at(0), limit: 10, minSimilarity: -1 },
      });
    const idsOf = (hits: { chunkId: string }[]) => hits.map((hit) => hit.chunkId);
    const rewrite = ({ documentId, generation }: StoredDocument, id: string, degrees: number) =>
      vectors.upsert({ orgId, model, points: [{ id, documentId, generation, vector: at(degrees) }] });

    describe('searching', () => {
      it('returns the nearest first, with their cosine similarity', async () => {
        const { chunkIds } = await addDocument([60, 0, 180]);
        const hits = await search();
        expect(idsOf(hits)).deep.equal([chunkIds[1], chunkIds[0], chunkIds[2]]);
        for (const [index, similarity] of [1, 0.5, -1].entries()) {
          expect(hits[index]?.similarity).closeTo(similarity, 1e-6);
        }
      });

      it('orders equal hits by id', async () => {
        const { chunkIds } = await addDocument([30, 30, 30, 30]);
        expect(idsOf(await search())).deep.equal([...chunkIds].sort());
      });

      it('keeps to the limit and the minimum similarity', async () => {
        await addDocument([0, 30, 60, 90]);
        const query = { readable: { orgId, acl: ['user:ada'] }, model, vector: at(0) };
        expect(await vectors.search({ ...query, limit: 2, minSimilarity: -1 })).length(2);
        expect(await vectors.search({ ...query, limit: 10, minSimilarity: 0.7 })).length(2);
      });

      it('returns only readable chunks, and unreadable ones take no place in the ranking', async () => {
        const far = await addDocument([80], { acl: ['team:red', 'user:ada'] });
        await addDocument(new Array(20).fill(1), { acl: ['user:grace'] });
        expect(idsOf(await search())).deep.equal(far.chunkIds);
        expect(idsOf(await search({ acl: ['team:red'] }))).deep.equal(far.chunkIds);
        expect(await search({ acl: ['team:blue'] })).deep.equal([]);
        expect(await search({ acl: [] })).deep.equal([]);
      });

      it('includes and excludes documents', async () => {
        const [one, two] = [await addDocument([0]), await addDocument([10])];
        expect(idsOf(await search({ includeDocumentIds: [two.documentId] }))).deep.equal(two.chunkIds);
        expect(idsOf(await search({ excludeDocumentIds: [two.documentId] }))).deep.equal(one.chunkIds);
        expect(idsOf(await search({ excludeDocumentIds: [] }))).deep.equal([...one.chunkIds, ...two.chunkIds]);
        expect(await search({ includeDocumentIds: [] })).deep.equal([]);
      });

      it('filters by retrieval settings', async () => {
        const [one, two] = [await addDocument([0]), await addDocument([10], { rrfK: 10 })];
        const found = async (...retrievalSettings: string[]) => idsOf(await search({ retrievalSettings }));
        expect(await found(one.retrievalSettings)).deep.equal(one.chunkIds);
        expect(await found(two.retrievalSettings)).deep.equal(two.chunkIds);
        expect(await found(one.retrievalSettings, two.retrievalSettings, '{}')).deep.equal([
          ...one.chunkIds,
          ...two.chunkIds,
        ]);
        expect(await found()).deep.equal([]);
      });

      it('keeps models apart, also those with similar names or other vector sizes', async () => {
        for (const name of ['Test-Model', 'test/model', 'test model', `${model}@2`]) {
          await addDocument([0], { model: name });
        }
        await addDocument([], { model: 'wide', vectors: [Float32Array.of(1, 0, 0, 0)] });
        expect(await search()).deep.equal([]);
        const { chunkIds } = await addDocument([0]);
        expect(idsOf(await search())).deep.equal(chunkIds);
      });

      it('stops when the caller aborts', async () => {
        await addDocument([0]);
        const readable = { orgId, acl: ['user:ada'] };
        const signal = AbortSignal.abort(new Error('gone'));
        const query = { readable, model, vector: at(0), limit: 1, minSimilarity: -1, signal };
        expect(await vectors.search(query).catch((error: Error) => error.message)).equal('gone');
      });
    });

    describe('publishing', () => {
      it('hides points until their generation is published', async () => {
        const newer = await addDocument([0], { generation: 2, isPublished: false });
        expect(await search()).deep.equal([]);
        expect(await vectors.countGenerations([newer])).deep.equal([1]);
      });

      it('is idempotent', async () => {
        const document = await addDocument([0]);
        await vectors.publish(document);
        expect(idsOf(await search())).deep.equal(document.chunkIds);
      });

      it('applies new access keys', async () => {
        const document = await addDocument([0, 10]);
        await fixture.change(vectors, document, { acl: ['team:red'] });
        expect(await search()).deep.equal([]);
        expect(await search({ acl: ['team:red'] })).length(2);
        await fixture.change(vectors, document, { acl: [] });
        expect(await search({ acl: ['team:red', 'user:ada'] })).deep.equal([]);
      });

      it('applies new retrieval settings', async () => {
        const before = await addDocument([0]);
        const after = await fixture.change(vectors, before, { rrfK: 10 });
        expect(await search({ retrievalSettings: [before.retrievalSettings] })).deep.equal([]);
        expect(await search({ retrievalSettings: [after.retrievalSettings] })).length(1);
      });

      it('is not undone by a late batch of points', async () => {
        const document = await addDocument([20]);
        await rewrite(document, document.chunkIds[0] ?? '', 20);
        expect(idsOf(await search())).deep.equal(document.chunkIds);
      });
    });

    describe('storing', () => {
      it('returns vectors as they were written, and the newer one of two writes', async () => {
        const document = await addDocument([20, 40], { isPublished: false });
        const [first = '', second = ''] = document.chunkIds;
        await rewrite(document, first, 70);
        const stored = await vectors.fetch({ orgId, model, chunkIds: [...document.chunkIds, uuidv7()] });
        expect([...stored.keys()]).members([first, second]);
        for (const [index, number] of at(70).entries()) expect(stored.get(first)?.[index]).closeTo(number, 1e-6);
        expect(await vectors.countGenerations([document])).deep.equal([2]);
      });

      it('splits large writes into several requests', async () => {
        const wide = Array.from({ length: 60 }, (_, index) => new Float32Array(4_000).fill(0.1, 0, index + 1));
        const document = await addDocument([], { model: 'very-wide', vectors: wide });
        expect(await vectors.countGenerations([document])).deep.equal([60]);
      });

      it('deletes older generations of a document, or all', async () => {
        const { documentId } = await addDocument([0]);
        const newer = [2, 3].map((generation) => ({ id: uuidv7(), documentId, generation, vector: at(0) }));
        await vectors.upsert({ orgId, model, points: newer });
        const counts = () =>
          vectors.countGenerations([1, 2, 3].map((generation) => ({ orgId, documentId, generation })));

        await vectors.deleteGenerations({ orgId, documentId, before: 2 });
        expect(await counts()).deep.equal([0, 1, 1]);
        await vectors.deleteGenerations({ orgId, documentId, before: null });
        expect(await counts()).deep.equal([0, 0, 0]);
      });

      it('deletes one generation between others, and those of every model', async () => {
        const { documentId } = await addDocument([0]);
        const newer = [2, 3].map((generation) => ({ id: uuidv7(), documentId, generation, vector: at(0) }));
        await vectors.upsert({ orgId, model: 'older-model', points: newer });
        await vectors.deleteGenerations({ orgId, documentId, from: 2, before: 3 });
        const generations = [1, 2, 3].map((generation) => ({ orgId, documentId, generation }));
        expect(await vectors.countGenerations(generations)).deep.equal([1, 0, 1]);
      });

      it('lists every generation, page by page', async () => {
        const stored = new Set<string>();
        for (const org of [orgId, await fixture.addOrganization()]) {
          for (const generation of [1, 3]) {
            const { documentId } = await addDocument([0, 10], { orgId: org, generation });
            stored.add(`${org} ${documentId} ${generation}`);
          }
        }
        const listed = new Set<string>();
        for (let after: string | null | undefined; after !== null; ) {
          const page: Awaited<ReturnType<VectorStore['listGenerations']>> = await vectors.listGenerations({
            after: after ?? null,
            limit: 20,
          });
          for (const of of page.generations) listed.add(`${of.orgId} ${of.documentId} ${of.generation}`);
          after = page.next;
        }
        expect([...listed]).include.members([...stored]);
      });

      it('tells which chunks have a vector of any model', async () => {
        const [{ chunkIds }, other] = [await addDocument([0, 10]), await addDocument([0], { model: 'other-model' })];
        const known = [chunkIds[0] ?? '', ...other.chunkIds];
        expect(await vectors.findExisting({ orgId, chunkIds: [...known, uuidv7()] })).deep.equal(new Set(known));
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
    });

    it('finds what an exact search finds, whatever share is readable', async () => {
      const random = seeded(7);
      const randomVector = () => Float32Array.from({ length: 32 }, () => random.next() - 0.5);
      const percentages = [1, 3, 10, 40, 100];
      const stored: { percent: number; id: string; vector: Float32Array }[] = [];
      for (let index = 0; index < 100; index++) {
        const percent = percentages.find((each) => index < each) ?? 100;
        const acl = percentages.filter((each) => index < each).map((each) => `user:${each}`);
        const written = Array.from({ length: 30 }, randomVector);
        const { chunkIds } = await addDocument([], { model: 'recall', vectors: written, acl });
        for (const [at, id] of chunkIds.entries()) stored.push({ percent, id, vector: written[at] ?? randomVector() });
      }
      await vectors.maintain();

      for (const percent of percentages) {
        const readable = stored.filter((point) => point.percent <= percent);
        let [found, expected] = [0, 0];
        for (let round = 0; round < 10; round++) {
          const vector = randomVector();
          const nearest = readable
            .map((point) => ({ id: point.id, similarity: cosine(vector, point.vector) }))
            .sort((one, other) => other.similarity - one.similarity)
            .slice(0, 10);
          const hits = await vectors.search({
            readable: { orgId, acl: [`user:${percent}`] },
            ...{ model: 'recall', vector, limit: 10, minSimilarity: -1 },
          });
          const right = new Set(nearest.map(({ id }) => id));
          found += hits.filter((hit) => right.has(hit.chunkId)).length;
          expected += right.size;
        }
        expect(found / expected, `at ${percent} %`).at.least(0.99);
      }
    });

    it("keeps organizations from finding, reading, publishing or deleting each other's points", async () => {
      const foreign = await addDocument([0], { orgId: await fixture.addOrganization() });
      const { documentId, chunkIds } = foreign;
      expect(await search()).deep.equal([]);
      expect(await search({ includeDocumentIds: [documentId] })).deep.equal([]);
      expect(await vectors.fetch({ orgId, model, chunkIds })).property('size', 0);
      expect(await vectors.findExisting({ orgId, chunkIds })).property('size', 0);
      expect(await vectors.countGenerations([{ ...foreign, orgId }])).deep.equal([0]);
      await vectors.publish({ ...foreign, orgId, acl: ['user:eve'] });
      await vectors.deleteGenerations({ orgId, documentId, before: null });
      expect(idsOf(await search({ orgId: foreign.orgId }))).deep.equal(chunkIds);
      expect(await search({ orgId: foreign.orgId, acl: ['user:eve'] })).deep.equal([]);
    });
  });
}

function cosine(one: Float32Array, other: Float32Array): number {
  const dot = (left: Float32Array, right: Float32Array) =>
    left.reduce((sum, number, at) => sum + number * (right[at] ?? 0), 0);
  return dot(one, other) / Math.sqrt(dot(one, one) * dot(other, other));
}
