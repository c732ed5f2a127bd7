import { expect } from 'chai';
import fc from 'fast-check';
import { deleteChunksOfGenerations, deleteIndexedChunks } from '#src/adapters/postgres/chunks.ts';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { bm25TermScore } from '#src/domain/retrieval/bm25.ts';
import { contentStems } from '#src/domain/text/words.ts';
import { createWordSearchRepository, type WordSearchLimits } from '#src/modules/retrieval/word-search.repository.ts';
import { termCountsMatchChunks } from '#src/modules/store-audit/invariants/ingestion.ts';
import {
  addIndexedChunks,
  addIndexedDocument,
  addOrganization,
  embeddingModel,
  type IndexedDocument,
} from '#test/support/indexed-documents.ts';
import { propertyRuns } from '#test/support/seeded.ts';
import { isLockAwaited, useTestDatabase } from '#test/support/services.ts';
import { until } from '#test/support/until.ts';
import { seededRandom } from '../../../bench/search/random.ts';

const acl = ['user:ada'];
const analyze = createTextAnalyzer();
const stemsOf = (text: string) => contentStems(analyze(text));

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

describe('word search', () => {
  const own = useTestDatabase(20);
  let owner: Awaited<ReturnType<typeof addOrganization>>;
  beforeEach(async () => {
    owner = await addOrganization(own.db);
  });

  const search = (terms: readonly string[], limit = 10, effort?: Partial<WordSearchLimits>) =>
    createWordSearchRepository(own.db, effort).searchWords({ readable: { orgId: owner.orgId, acl }, terms, limit });
  const addDocument = (texts: readonly string[], options = {}) => addIndexedDocument(own.db, owner, texts, options);

  async function add(texts: readonly string[], chunksEach = 5, keys = acl): Promise<Map<string, string[]>> {
    const stored = new Map<string, string[]>();
    for (let start = 0; start < texts.length; start += chunksEach) {
      const part = texts.slice(start, start + chunksEach);
      const { chunkIds } = await addDocument(part, { acl: keys });
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

  it('returns the hits that scoring every chunk would return; limited to rare words, it still returns the best hit', async () => {
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
    // A repeated term counts once, and unknown terms do not count.
    expectSame(await search(['w3', 'w3', 'nobody', 'w40', 'w3']), scoreAll(texts, ['w3', 'w40']).slice(0, 10));
    for (const terms of [['nobody', 'none'], []]) expect(await search(terms)).deep.equal([]);
  });

  it('orders chunks of equal score by their id, also where the limit cuts the list', async () => {
    const texts = await add(new Array(40).fill('these blue words'), 8);
    const right = [...texts.keys()].sort();
    expect((await search(['blue'], 7)).map((hit) => hit.chunkId)).deep.equal(right.slice(0, 7));
    const hits = await search(['blue', 'word'], 7, { postings: 2, candidatesPerHit: 1, documents: 0 });
    expect(hits.map((hit) => hit.chunkId)).deep.equal(right.slice(0, 7));
  });

  it('returns only readable chunks of active generations that match the requested model, settings and documents', async () => {
    const { db } = own;
    const { searchWords } = createWordSearchRepository(db, { postings: 1, candidatesPerHit: 1, documents: 0 });
    const pie = ['apple pie'];
    const [mine, other, old] = [await addDocument(pie), await addDocument(pie), await addDocument(pie)];
    await addDocument(pie, { acl: ['user:bob'] });
    await addIndexedDocument(db, await addOrganization(db), pie);
    await db('documents').where({ id: old.documentId }).update({ activeGeneration: 2 });

    const found = async (extra: { model?: string } & Partial<Parameters<typeof searchWords>[0]['readable']>) => {
      const { model = embeddingModel, ...rest } = extra;
      const readable = { orgId: owner.orgId, acl, ...rest };
      const hits = await searchWords({ readable, model, terms: ['appl', 'pie'], limit: 5 });
      return hits.map((hit) => hit.chunkId).sort();
    };
    const [both, ownOnly] = [[...mine.chunkIds, ...other.chunkIds].sort(), mine.chunkIds];
    const { retrievalSettings } = await db('documents').where({ id: mine.documentId }).first('retrievalSettings');

    const cases: [Parameters<typeof found>[0], string[]][] = [
      [{}, both],
      [{ includeDocumentIds: [mine.documentId, old.documentId] }, ownOnly],
      [{ includeDocumentIds: [] }, []],
      [{ excludeDocumentIds: [other.documentId] }, ownOnly],
      [{ retrievalSettings: ['{}', retrievalSettings] }, both],
      [{ retrievalSettings: ['{}'] }, []],
      [{ model: 'another' }, []],
      [{ acl: ['user:eve'] }, []],
    ];
    for (const [extra, expected] of cases) expect(await found(extra), JSON.stringify(extra)).deep.equal(expected);
  });

  it('finds the same for a user who may read few documents, however many unreadable documents are added', async () => {
    await add(zipfTexts(150));
    const { orgId } = owner;
    await add(zipfTexts(200), 100, ['user:bob']);
    const [first] = await own.db('documents').where({ orgId }).whereRaw('acl && ?', [acl]).orderBy('id');
    const settings = { retrievalSettings: [first.retrievalSettings] };
    const others = { ...settings, excludeDocumentIds: [first.id] };
    const effort = { postings: 40, furthest: 60, candidatesPerHit: 2, documents: 0 };
    const { searchWords, searchPassages } = createWordSearchRepository(own.db, effort);
    const random = seededRandom(9);
    const queries = Array.from({ length: 12 }, () => Array.from({ length: 3 }, () => `w${random.below(40)}`));
    // Sums of the same scores in another order differ in their last digit, and so may the order of equal ones.
    const rounded = (_: string, value: unknown) => (typeof value === 'number' ? value.toFixed(9) : value);
    const comparable = (hits: readonly object[]) => hits.map((hit) => JSON.stringify(hit, rounded)).sort();
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
    // Without words, so that no statistics change.
    for (let more = 0; more < 100; more += 1) await addDocument([], { acl: ['user:bob'] });
    expect(await findAll()).deep.equal(before);
  });

  it('uses documents that the caller may not read for word frequencies only', async () => {
    const word = fc.constantFrom('loan', 'fee', 'bank', 'hous', 'rate', 'year');
    const texts = fc.array(
      fc.array(word, { minLength: 1, maxLength: 4 }).map((words) => words.join(' ')),
      { minLength: 1, maxLength: 6 },
    );
    const upTo = (max: number) => fc.integer({ min: 1, max });
    const documentLimit = fc.nat({ max: 2 });
    const effort = fc.record({
      terms: upTo(5),
      postings: upTo(8),
      candidatesPerHit: upTo(3),
      documents: documentLimit,
    });
    const terms = fc.array(word, { minLength: 1, maxLength: 5 });
    const documents = fc.array(fc.record({ texts, isMine: fc.boolean() }), { minLength: 1, maxLength: 6 });
    const searched = fc.asyncProperty(documents, terms, upTo(8), effort, async (stored, asked, most, how) => {
      owner = await addOrganization(own.db);
      const unreadable: string[] = [];
      for (const { texts: contents, isMine } of stored) {
        const { documentId } = await addDocument(contents, { acl: isMine ? acl : ['user:bob'] });
        if (!isMine) unreadable.push(documentId);
      }
      const found = await search(asked, most, how);
      await own.db('documents').whereIn('id', unreadable).delete();
      expect(await own.db('documentTerms').whereIn('documentId', unreadable)).length(0);
      expect(await search(asked, most, how)).deep.equal(found);
    });
    await fc.assert(searched, { numRuns: propertyRuns(200) });
  });

  /** Words in an order that no other text has. */
  const text = (seed: number) =>
    Array.from({ length: 20 }, (_, place) => `word${(seed * 17 + place * (seed + 7)) % 60}`).join(' ');
  const differentTexts = (count: number, first = 0) => Array.from({ length: count }, (_, n) => text(first + n));
  const remove = ({ orgId, documentId }: IndexedDocument) =>
    deleteChunksOfGenerations(own.db, { orgId, documentId, from: 0, before: null }, (trx) =>
      trx('documentGenerations').where({ orgId, documentId }).delete(),
    );
  const rowsOf = (table: string) => own.db(table).where({ orgId: owner.orgId });

  /** Compares the statistics of the organization with its stored chunks and terms. */
  async function expectExact(): Promise<void> {
    const found: string[] = [];
    const [deps, grace] = [{ db: own.db }, {}] as unknown as Parameters<typeof termCountsMatchChunks.run>;
    await termCountsMatchChunks.run(deps, grace, ({ orgId, detail }) => {
      if (orgId === owner.orgId) found.push(detail);
    });
    expect(found).deep.equal([]);
  }

  it('keeps exact word statistics during concurrent inserts and deletions, which cause no deadlock', async () => {
    const addNth = (n: number) => addDocument(differentTexts(1 + (n % 7) * 40, n * 31));
    const early = await Promise.all([1, 2, 3, 4, 5, 6].map(addNth));
    const late = Array.from({ length: 12 }, async (_, index) => {
      const document = await addNth(index + 7);
      if (index % 2 === 0) await remove(document);
    });
    await Promise.all([...early.map(remove), ...late]);
    await expectExact();
  });

  it('keeps exact word statistics after each batch of a deletion, when a document is deleted twice concurrently', async () => {
    const document = await addDocument(Array.from({ length: 4_200 }, (_, index) => `word${index % 60}`));
    const range = { ...document, from: 0, before: null };
    let second: Promise<Buffer[] | null> | undefined;
    await own.db.transaction(async (first) => {
      expect((await deleteIndexedChunks(first, range))?.length).equal(2_048);
      second = own.db.transaction((trx) => deleteIndexedChunks(trx, range));
      await until('a transaction waits for another', () => isLockAwaited(own.db));
    });
    expect(await second).deep.equal([]);
    await expectExact();
    await Promise.all([remove(document), remove(document), remove(document)]);
    for (const table of ['chunks', 'documentTerms', 'termStatistics'])
      expect(await rowsOf(table), table).deep.equal([]);
    await expectExact();
  });

  it('keeps exact word statistics when a late activity stores chunks of a generation that is being deleted', async () => {
    const document = await addDocument([]);
    let removed: Promise<void> | undefined;
    await own.db.transaction(async (late) => {
      await late('documentGenerations').where({ documentId: document.documentId }).forUpdate();
      removed = remove(document);
      await addIndexedChunks(late, document, [text(1)]);
    });
    await removed;
    expect(await rowsOf('chunks')).deep.equal([]);
    await expectExact();
  });

  it('counts words for each organization separately, and counts a word of ten thousand letters as several words', async () => {
    await addIndexedDocument(own.db, await addOrganization(own.db), differentTexts(2));
    expect((await addDocument(['x'.repeat(10_000)])).chunkIds).length(1);
    expect(await rowsOf('chunkStatistics').first()).include({ chunkCount: 1, termCount: 157 });
  });
});
