import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import fc from 'fast-check';
import type { Knex } from 'knex';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { bm25TermScore } from '#src/domain/retrieval/bm25.ts';
import { contentStems } from '#src/domain/text/words.ts';
import { createWordSearchRepository, type WordSearchLimits } from '#src/modules/retrieval/word-search.repository.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { addIndexedDocument, addOrganization, embeddingModel } from '#test/support/indexed-documents.ts';
import { propertyRuns } from '#test/support/property-runs.ts';
import { openQueryPlans, scansOf } from '#test/support/query-plans.ts';
import { createTestDatabase } from '#test/support/services.ts';
import { skip } from '#test/support/skip.ts';
import { readCranfield } from '../../../bench/retrieval/cranfield.ts';
import { seededRandom } from '../../../bench/search/random.ts';

const acl = ['user:ada'];
const analyze = createTextAnalyzer();
const stemsOf = (text: string) => contentStems(analyze(text));
const datasets = process.env.DATASETS_DIR ?? join(import.meta.dirname, '..', '..', '..', '..', 'shared', 'datasets');

type Hit = { chunkId: string; score: number };

/** Every text scored on every term by the formula, best first. */
function scoreAll(texts: ReadonlyMap<string, readonly string[]>, terms: readonly string[]): Hit[] {
  const averageLength = [...texts.values()].reduce((sum, stems) => sum + stems.length, 0) / texts.size;
  const scores = new Map<string, number>();
  for (const term of new Set(terms)) {
    const having = [...texts].filter(([, stems]) => stems.includes(term));
    for (const [id, stems] of having) {
      const frequency = stems.filter((stem) => stem === term).length;
      const score = bm25TermScore(frequency, having.length, texts.size, stems.length, averageLength);
      scores.set(id, (scores.get(id) ?? 0) + score);
    }
  }
  const hits = Array.from(scores, ([chunkId, score]) => ({ chunkId, score }));
  return hits.sort((a, b) => b.score - a.score || (a.chunkId < b.chunkId ? -1 : 1));
}

describe('word search over many chunks', () => {
  let database: Awaited<ReturnType<typeof createTestDatabase>>;
  let db: Knex;
  let plans: Awaited<ReturnType<typeof openQueryPlans>>;
  let owner: Awaited<ReturnType<typeof addOrganization>>;

  before(async () => {
    database = await createTestDatabase();
    db = createDatabase({ url: database.url, maxConnections: 5, applicationName: 'test' });
    plans = await openQueryPlans(db, database.url);
  });
  after(async () => {
    await plans.close();
    await db.destroy();
    await database.drop();
  });
  beforeEach(async () => {
    owner = await addOrganization(db);
  });

  const search = (terms: readonly string[], limit = 10, effort?: Partial<WordSearchLimits>) =>
    createWordSearchRepository(db, effort).searchWords({ readable: { orgId: owner.orgId, acl }, terms, limit });

  async function add(texts: readonly string[], chunksEach = 5, keys = acl): Promise<Map<string, string[]>> {
    const stored = new Map<string, string[]>();
    for (let start = 0; start < texts.length; start += chunksEach) {
      const part = texts.slice(start, start + chunksEach);
      const { chunkIds } = await addIndexedDocument(db, owner, part, { acl: keys });
      for (const [index, id] of chunkIds.entries()) stored.set(id, stemsOf(part[index] ?? ''));
    }
    return stored;
  }

  function expectSame(found: readonly Hit[], right: readonly Hit[]): void {
    expect(found.map((hit) => hit.chunkId)).deep.equal(right.map((hit) => hit.chunkId));
    for (const [index, hit] of found.entries()) expect(hit.score).closeTo(right[index]?.score ?? 0, 1e-9);
  }

  /** Words that are the rarer the higher their number (Zipf). */
  function zipfTexts(count: number): string[] {
    const random = seededRandom(3);
    const text = () =>
      Array.from({ length: 5 + random.below(40) }, () => `w${Math.floor(500 ** random.next())}`).join(' ');
    return Array.from({ length: count }, text);
  }

  it('returns the same as scoring everything, also when it starts with the rare words', async () => {
    const texts = await add(zipfTexts(600), 150);
    const random = seededRandom(5);
    for (let round = 0; round < 25; round += 1) {
      const terms = Array.from({ length: 2 + random.below(6) }, () => `w${Math.floor(500 ** random.next())}`);
      const right = scoreAll(texts, terms).slice(0, 10);
      expectSame(await search(terms), right);
      // Half of these terms are common ones now. What it finds is scored in full, and nearly always the best.
      const hits = await search(terms, 10, { postings: 150, candidatesPerHit: 20, documents: 0 });
      const scores = new Map(scoreAll(texts, terms).map((hit) => [hit.chunkId, hit.score]));
      for (const hit of hits) expect(hit.score).closeTo(scores.get(hit.chunkId) ?? 0, 1e-9);
      expect(hits[0]?.chunkId).equal(right[0]?.chunkId);
    }
  });

  it('orders equal scores by chunk id, also at the limit', async () => {
    const texts = await add(
      Array.from({ length: 40 }, () => 'these blue words'),
      8,
    );
    const right = [...texts.keys()].sort();
    expect((await search(['blue'], 7)).map((hit) => hit.chunkId)).deep.equal(right.slice(0, 7));
    const hits = await search(['blue', 'word'], 7, { postings: 2, candidatesPerHit: 1, documents: 0 });
    expect(hits.map((hit) => hit.chunkId)).deep.equal(right.slice(0, 7));
  });

  it('counts a repeated term once and ignores unknown terms', async () => {
    const texts = await add(zipfTexts(50));
    expectSame(await search(['w3', 'w3', 'nobody', 'w40', 'w3']), scoreAll(texts, ['w3', 'w40']).slice(0, 10));
    expect(await search(['nobody', 'none'])).deep.equal([]);
    expect(await search([])).deep.equal([]);
  });

  it('answers a query of hundreds of words', async () => {
    const texts = await add(zipfTexts(300));
    const terms = Array.from({ length: 700 }, (_, index) => `w${index}`);
    const right = scoreAll(texts, terms).slice(0, 50);
    expectSame(await search(terms, 50, { terms: 700, postings: 100_000, documents: 0 }), right);
    expect(await search(terms, 50, { terms: 700, postings: 500, documents: 0 })).length(50);
    expectSame(await search(terms, 50), scoreAll(texts, terms.slice(0, 64)).slice(0, 50));
  });

  it('returns only readable, active chunks of the model, the settings and the included documents', async () => {
    const { searchWords } = createWordSearchRepository(db, { postings: 1, candidatesPerHit: 1, documents: 0 });
    const own = await addIndexedDocument(db, owner, ['apple pie']);
    const other = await addIndexedDocument(db, owner, ['apple pie']);
    await addIndexedDocument(db, owner, ['apple pie'], { acl: ['user:bob'] });
    await addIndexedDocument(db, await addOrganization(db), ['apple pie']);
    const old = await addIndexedDocument(db, owner, ['apple pie']);
    await db('documents').where({ id: old.documentId }).update({ activeGeneration: 2 });

    const found = async (extra: { model?: string } & Partial<Parameters<typeof searchWords>[0]['readable']> = {}) => {
      const { model = embeddingModel, ...rest } = extra;
      const readable = { orgId: owner.orgId, acl, ...rest };
      const hits = await searchWords({ readable, model, terms: ['appl', 'pie'], limit: 5 });
      return hits.map((hit) => hit.chunkId).sort();
    };
    const [both, ownOnly] = [[...own.chunkIds, ...other.chunkIds].sort(), own.chunkIds];
    const { retrievalSettings } = await db('documents').where({ id: own.documentId }).first('retrievalSettings');

    expect(await found()).deep.equal(both);
    expect(await found({ includeDocumentIds: [own.documentId, old.documentId] })).deep.equal(ownOnly);
    expect(await found({ includeDocumentIds: [] })).deep.equal([]);
    expect(await found({ excludeDocumentIds: [other.documentId] })).deep.equal(ownOnly);
    expect(await found({ retrievalSettings: ['{}', retrievalSettings] })).deep.equal(both);
    expect(await found({ retrievalSettings: ['{}'] })).deep.equal([]);
    expect(await found({ model: 'another' })).deep.equal([]);
    expect(await found({ acl: ['user:eve'] })).deep.equal([]);
  });

  it('returns all matches to a reader of few documents, however often rare words occur elsewhere', async () => {
    const mine = await addIndexedDocument(db, owner, ['a blue apple', 'a red apple']);
    const apples = Array.from({ length: 30 }, () => 'some apple and apple');
    await addIndexedDocument(db, owner, [...apples, 'blue paint', 'blue sky'], { acl: ['user:bob'] });
    for (const documents of [0, 300]) {
      const hits = await search(['blue', 'appl'], 10, { postings: 3, candidatesPerHit: 1, documents });
      expect(hits.map((hit) => hit.chunkId)).deep.equal(mine.chunkIds);
    }
  });

  it('uses further words when too few readable chunks contain the rare ones, and no more than needed', async () => {
    const texts = Array.from({ length: 40 }, (_, index) => `blue ${index < 20 ? 'paint' : 'sky'}`);
    const mine = await addIndexedDocument(db, owner, [...texts, 'red apple']);
    for (let others = 0; others < 5; others += 1) {
      await addIndexedDocument(db, owner, [...texts, 'apple'], { acl: ['user:bob'] });
    }
    const terms = ['blue', 'appl', 'red', 'paint'];
    const effort = { postings: 2, furthest: 20, candidatesPerHit: 10, documents: 0 };
    // The apple and the red are rare, the paint is more than may be read, and blue is nowhere but where paint is too.
    const hits = await search(terms, 5, effort);
    expect(hits[0]?.chunkId).equal(mine.chunkIds[40]);
    expect(hits.slice(1).every(({ chunkId }) => mine.chunkIds.slice(0, 20).includes(chunkId))).equal(true);
    expect(hits).length(5);
    // Of paint and of blue no more than the furthest.
    expect(await search(terms, 50, { ...effort, postings: 1 })).length(21);
    expect(await search(['blue'], 50, { ...effort, postings: 1 })).length(20);
  });

  it('returns the same for a reader of a small part, without checking each unreadable document', async () => {
    await add(zipfTexts(150));
    const { orgId } = owner;
    await add(zipfTexts(200), 100, ['user:bob']);
    const [first] = await db('documents').where({ orgId }).whereRaw('acl && ?', [acl]).orderBy('id');
    const settings = { retrievalSettings: [first.retrievalSettings] };
    const others = { ...settings, excludeDocumentIds: [first.id] };
    const effort = { postings: 40, furthest: 60, candidatesPerHit: 2, documents: 0 };
    const { searchWords, searchPassages } = createWordSearchRepository(db, effort);
    const random = seededRandom(9);
    const queries = Array.from({ length: 12 }, () => Array.from({ length: 3 }, () => `w${random.below(40)}`));
    // Sums of the same scores in another order differ in their last digit, and so may the order of equal ones.
    const comparable = (hits: readonly object[]) =>
      hits
        .map((hit) => JSON.stringify(hit, (_, value) => (typeof value === 'number' ? value.toFixed(9) : value)))
        .sort();
    async function findAll() {
      const found = [];
      for (const terms of queries) {
        for (const narrowing of [{}, settings, others]) {
          found.push(comparable(await searchWords({ readable: { orgId, acl, ...narrowing }, terms, limit: 10 })));
        }
        found.push(comparable(await searchPassages({ readable: { orgId, acl }, terms, limit: 30 }, 20)));
      }
      return found;
    }
    const before = await findAll();
    expect(before.every((hits) => hits.length > 0)).equal(true);

    const lookups = async () => {
      const query = { readable: { orgId, acl }, terms: ['w1', 'w2', 'w3'], limit: 30 };
      return scansOf((await plans.plansOf(() => searchPassages(query, 20))).flat(), 'documents');
    };
    expect(await lookups()).above(40);
    // Without words, so that no statistics change.
    for (let more = 0; more < 100; more += 1) await addIndexedDocument(db, owner, [], { acl: ['user:bob'] });
    expect(await findAll()).deep.equal(before);
    expect(await lookups()).below(10);
  });

  it('uses only word frequencies of unreadable documents', async () => {
    const word = fc.constantFrom('loan', 'fee', 'bank', 'hous', 'rate', 'year');
    const texts = fc.array(
      fc.array(word, { minLength: 1, maxLength: 4 }).map((words) => words.join(' ')),
      { minLength: 1, maxLength: 6 },
    );
    const effort = fc.record({
      terms: fc.integer({ min: 1, max: 5 }),
      postings: fc.integer({ min: 1, max: 8 }),
      candidatesPerHit: fc.integer({ min: 1, max: 3 }),
      documents: fc.integer({ min: 0, max: 2 }),
    });
    const query = fc.record({
      terms: fc.array(word, { minLength: 1, maxLength: 5 }),
      limit: fc.integer({ min: 1, max: 8 }),
    });
    const documents = fc.array(fc.record({ texts, isMine: fc.boolean() }), { minLength: 1, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(documents, query, effort, async (stored, { terms, limit }, how) => {
        owner = await addOrganization(db);
        const unreadable: string[] = [];
        for (const { texts: own, isMine } of stored) {
          const { documentId } = await addIndexedDocument(db, owner, own, { acl: isMine ? acl : ['user:bob'] });
          if (!isMine) unreadable.push(documentId);
        }
        const found = await search(terms, limit, how);
        await db('documents').whereIn('id', unreadable).delete();
        expect(await db('documentTerms').whereIn('documentId', unreadable)).length(0);
        expect(await search(terms, limit, how)).deep.equal(found);
      }),
      { numRuns: propertyRuns(200) },
    );
  });

  it('throws at the timeout of its caller', async () => {
    await add(zipfTexts(50));
    const { searchWords } = createWordSearchRepository(db);
    const query = { readable: { orgId: owner.orgId, acl }, terms: ['w1'], limit: 5, timeoutMs: 100 };
    await db.transaction(async (trx) => {
      await trx.raw('lock table document_terms in access exclusive mode');
      expect(await appErrorCode(searchWords(query))).equal('service_unavailable');
    });
    expect(await searchWords({ ...query, timeoutMs: 60_000 })).length(5);
  });

  it('returns the same as scoring everything on Cranfield', async function () {
    if (!existsSync(join(datasets, 'cranfield'))) skip(this, 'no data sets');
    const { documents, queries } = readCranfield();
    const texts = await add(
      documents.map((document) => `${document.title}\n${document.text}`),
      100,
    );
    let same = 0;
    const asked = queries.filter((_, index) => index % 9 === 0);
    for (const { text } of asked) {
      const terms = stemsOf(text);
      const right = scoreAll(texts, terms).slice(0, 50);
      expectSame(await search(terms, 50), right);
      const hits = await search(terms, 50, { postings: 500, candidatesPerHit: 4, documents: 0 });
      const ids = new Set(right.slice(0, 10).map((hit) => hit.chunkId));
      same += hits.slice(0, 10).filter((hit) => ids.has(hit.chunkId)).length / ids.size;
    }
    // With a tenth of the usual effort.
    expect(same / asked.length).at.least(0.95);
  });
});
