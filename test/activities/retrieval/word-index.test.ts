import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Knex } from 'knex';
import { deleteChunksOfGenerations, deleteIndexedChunks } from '#src/adapters/postgres/chunks.ts';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import {
  addIndexedChunks,
  addIndexedDocument,
  addOrganization,
  type IndexedDocument,
} from '#test/support/indexed-documents.ts';
import { createTestDatabase } from '#test/support/services.ts';
import { until } from '#test/support/until.ts';

const untilOneWaits = (db: Knex) =>
  until('a transaction waits for another', async () => {
    const { rows } = await db.raw<{ rows: object[] }>(
      `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    );
    return rows.length > 0 ? rows : null;
  });

const vocabulary = Array.from({ length: 60 }, (_, index) => `word${index}`);

describe('word statistics', () => {
  let database: Awaited<ReturnType<typeof createTestDatabase>>;
  let db: Knex;
  let owner: Awaited<ReturnType<typeof addOrganization>>;

  before(async () => {
    database = await createTestDatabase();
    db = createDatabase({ url: database.url, maxConnections: 20, applicationName: 'test' });
  });
  after(async () => {
    await db.destroy();
    await database.drop();
  });
  beforeEach(async () => {
    owner = await addOrganization(db);
  });

  async function statistics() {
    const { orgId } = owner;
    const terms: { term: string; chunkCount: number }[] = await db('termStatistics').where({ orgId });
    const chunks = await db('chunkStatistics').where({ orgId }).first('chunkCount', 'termCount');
    return { chunks, terms: Object.fromEntries(terms.map((row) => [row.term, row.chunkCount])) };
  }

  /** From the texts, with nothing of what is counted. */
  async function recount() {
    const contents: string[] = await db('chunks').where({ orgId: owner.orgId }).pluck('content');
    const terms: Record<string, number> = {};
    for (const content of contents) {
      for (const word of new Set(content.split(' '))) terms[word] = (terms[word] ?? 0) + 1;
    }
    const termCount = contents.reduce((sum, content) => sum + content.split(' ').length, 0);
    return { chunks: { chunkCount: contents.length, termCount }, terms };
  }

  /** Words in no order that another text has. */
  function text(seed: number): string {
    return Array.from({ length: 20 }, (_, place) => vocabulary[(seed * 17 + place * (seed + 7)) % 60]).join(' ');
  }

  const remove = ({ orgId, documentId }: IndexedDocument) =>
    deleteChunksOfGenerations(db, { orgId, documentId, from: 0, before: null }, (trx) =>
      trx('documentGenerations').where({ orgId, documentId }).delete(),
    );

  it('are exact after concurrent inserts and deletions, without deadlocks', async () => {
    const texts = (seed: number) => Array.from({ length: 1 + (seed % 7) * 40 }, (_, index) => text(seed * 31 + index));
    const early = await Promise.all([1, 2, 3, 4, 5, 6].map((seed) => addIndexedDocument(db, owner, texts(seed))));
    await Promise.all([
      ...early.map(remove),
      ...Array.from({ length: 12 }, async (_, index) => {
        const document = await addIndexedDocument(db, owner, texts(index + 7));
        if (index % 2 === 0) await remove(document);
      }),
    ]);
    expect(await statistics()).deep.equal(await recount());
  });

  it('drop words that no chunk contains any more', async () => {
    const document = await addIndexedDocument(db, owner, [text(1), text(2)]);
    await remove(document);
    expect(await statistics()).deep.equal({ chunks: { chunkCount: 0, termCount: 0 }, terms: {} });
    expect(await db('documentTerms').where({ orgId: owner.orgId })).deep.equal([]);
  });

  it('are exact between the batches of a deletion', async () => {
    const document = await addIndexedDocument(
      db,
      owner,
      Array.from({ length: 2_100 }, (_, index) => text(index)),
    );
    const range = { ...document, from: 0, before: null };
    for (const part of [2_048, 52, undefined]) {
      const deleted = await db.transaction((trx) => deleteIndexedChunks(trx, range));
      expect(deleted?.length).equal(part);
      expect(await statistics()).deep.equal(await recount());
    }
  });

  it('are exact when a document is deleted twice concurrently', async () => {
    const document = await addIndexedDocument(
      db,
      owner,
      Array.from({ length: 4_200 }, (_, index) => `word${index % 60}`),
    );
    const range = { ...document, from: 0, before: null };
    let second: Promise<Buffer[] | null> | undefined;
    await db.transaction(async (first) => {
      expect((await deleteIndexedChunks(first, range))?.length).equal(2_048);
      second = db.transaction((trx) => deleteIndexedChunks(trx, range));
      await untilOneWaits(db);
    });
    expect(await second).deep.equal([]);
    await Promise.all([remove(document), remove(document), remove(document)]);
    expect(await db('chunks').where({ orgId: owner.orgId })).deep.equal([]);
    expect(await statistics()).deep.equal({ chunks: { chunkCount: 0, termCount: 0 }, terms: {} });
  });

  it('are exact when an interrupted activity stores chunks of a generation that is being deleted', async () => {
    const document = await addIndexedDocument(db, owner, []);
    let removed: Promise<void> | undefined;
    await db.transaction(async (late) => {
      await late('documentGenerations').where({ documentId: document.documentId }).forUpdate();
      removed = remove(document);
      await addIndexedChunks(late, document, [text(1)]);
    });
    await removed;
    expect(await db('chunks').where({ orgId: owner.orgId })).deep.equal([]);
    expect(await statistics()).deep.equal(await recount());
  });

  it('are separate for each organization', async () => {
    await addIndexedDocument(db, owner, [text(1)]);
    const before = await statistics();
    await addIndexedDocument(db, await addOrganization(db), [text(1), text(2)]);
    expect(await statistics()).deep.equal(before);
  });

  it('split a word of ten thousand letters', async () => {
    const { chunkIds } = await addIndexedDocument(db, owner, ['x'.repeat(10_000)]);
    expect(chunkIds.length).equal(1);
    expect((await statistics()).chunks?.termCount).equal(157);
  });

  it('are unchanged after the migration was rolled back and run again', async () => {
    await addIndexedDocument(
      db,
      owner,
      Array.from({ length: 300 }, (_, index) => `${text(index)} ${text(index)}`),
    );
    const stored = async () => [
      await statistics(),
      await db('documentTerms').where({ orgId: owner.orgId }).orderBy(['term', 'block']),
    ];
    const before = await stored();
    const folder = join(import.meta.dirname, '../../../migrations');
    const names = readdirSync(folder).sort();
    // With all that were made on top of it.
    const taken = names.slice(names.indexOf('20261122000500_word_index.ts'));
    const migrations: Knex.Migration[] = await Promise.all(taken.map((name) => import(join(folder, name))));
    for (const { down } of migrations.toReversed()) await db.transaction(async (trx) => down?.(trx));
    for (const { up } of migrations) await db.transaction(async (trx) => up(trx));
    expect(await stored()).deep.equal(before);
  });
});
