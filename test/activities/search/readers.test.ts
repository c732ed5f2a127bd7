import { expect } from 'chai';
import fc from 'fast-check';
import type { Knex } from 'knex';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { createPassageSearch } from '#src/modules/retrieval/retrieval.service.ts';
import { createSearchService, type SearchService } from '#src/modules/search/search.service.ts';
import { addIndexedDocument, addOrganization } from '#test/support/indexed-documents.ts';
import { createTestDatabase } from '#test/support/services.ts';

type Organization = Awaited<ReturnType<typeof addOrganization>>;

/** Who opens a document, of the first organization or of another. */
const keys = ['user:ada', 'user:bob', 'team:red', 'team:blue', 'org:one', 'foreign'] as const;
type Key = (typeof keys)[number];

const readers: Record<string, { teams: string[]; opened: readonly Key[] }> = {
  ada: { teams: ['red'], opened: ['user:ada', 'team:red', 'org:one'] },
  bob: { teams: ['red', 'blue'], opened: ['user:bob', 'team:red', 'team:blue', 'org:one'] },
};

/** A word that only this document has, in its name and in its text. */
const canary = (place: number) => `canary${'abcdefghijklmnop'[place]}bird`;
const words = ['report', 'repot', 'annual', 'contract', 'contrast', 'plan', '2024', 'the'];

const documents = fc.array(
  fc.record({
    key: fc.constantFrom(...keys),
    name: fc.array(fc.constantFrom(...words), { maxLength: 3 }),
    text: fc.array(fc.constantFrom(...words), { maxLength: 6 }),
  }),
  { minLength: 1, maxLength: 8 },
);

const queryWord = fc.oneof(
  fc.constantFrom(...words),
  fc.nat(7).map(canary),
  fc.nat(7).map((place) => canary(place).replace('nary', 'nray')),
  fc.tuple(fc.nat(7), fc.integer({ min: 1, max: 11 })).map(([place, length]) => canary(place).slice(0, length)),
  fc.constantFrom('%', '_', '"', '*'),
);
const query = fc
  .tuple(fc.array(queryWord, { minLength: 1, maxLength: 4 }), fc.boolean())
  .map(([chosen, isQuoted]) => (isQuoted ? `"${chosen.join(' ')}"` : chosen.join(' ')));

describe('search by users with different access', () => {
  let db: Knex;
  let service: SearchService;
  let drop: () => Promise<void>;

  before(async () => {
    const database = await createTestDatabase();
    db = createDatabase({ url: database.url, maxConnections: 4, applicationName: 'test' });
    const analyze = createTextAnalyzer();
    const inTurn = <Result>(_: string, task: () => Promise<Result>) => task();
    const searchPassages = createPassageSearch({ db, analyze, inTurn: { words: inTurn, vectors: inTurn } });
    service = createSearchService({ db, analyze, inTurn, retrieval: { searchPassages } });
    drop = async () => {
      await db.destroy();
      await database.drop();
    };
  });
  after(() => drop());

  async function add(organization: Organization, key: Key, name: string, text: string): Promise<string> {
    const acl = key === 'org:one' ? [`org:${organization.orgId}`] : [key];
    const { documentId } = await addIndexedDocument(db, organization, [text], { acl });
    await db('documents').where({ id: documentId }).update({ name });
    return documentId;
  }

  const search = (actor: Actor, q: string) => service.search(actor, q, { limit: 50, offset: 0 });

  it('neither returns nor counts unreadable documents', async () => {
    await fc.assert(
      fc.asyncProperty(documents, query, fc.constantFrom('ada', 'bob'), async (made, q, name) => {
        const [one, other] = [await addOrganization(db), await addOrganization(db)];
        const { teams, opened } = readers[name] ?? { teams: [], opened: [] };
        const ids: string[] = [];
        for (const [place, { key, name: words, text }] of made.entries()) {
          const of = key === 'foreign' ? other : one;
          // Of the other organization, what would open it here.
          const acl = key === 'foreign' ? 'user:ada' : key;
          const own = canary(place);
          ids.push(await add(of, acl, [...words, own].join('_'), [...text, own].join(' ')));
        }
        const actor: Actor = {
          ...{ userId: name, orgId: one.orgId, isOrgAdmin: false },
          ...{ teamIds: teams, teamAdminOf: [], openTeamIds: teams },
        };
        const mayRead = (place: number) => opened.some((key) => key === made[place]?.key);
        const { items, total } = await search(actor, q);

        expect(total).equal(items.length);
        expect(new Set(items.map(({ id }) => id)).size).equal(items.length);
        for (const { id, preview, rank } of items) {
          expect(mayRead(ids.indexOf(id))).equal(true);
          expect(rank).within(0, 6);
          const others = made.flatMap((_, place) => (ids[place] === id ? [] : [canary(place)]));
          expect(others.filter((word) => preview.includes(word))).deep.equal([]);
        }
        for (const [place, id] of ids.entries()) {
          const found = (await search(actor, canary(place))).items.map((item) => item.id);
          // The canaries of others are a typo away.
          expect(found[0] === id).equal(mayRead(place));
        }

        const stranger: Key = name === 'ada' ? 'user:bob' : 'user:ada';
        await add(one, stranger, q, q);
        await add(other, 'user:ada', q, q);
        expect((await search(actor, q)).total).equal(total);
      }),
      { numRuns: 15 },
    );
  });

  /** Documents without a text. */
  async function addFillers({ orgId, userId }: Organization, key: Key, count: number): Promise<void> {
    await db.raw(
      `insert into documents (id, org_id, name, file_name, size_bytes, content_sha256, blob_key, rag_config, acl,
                              created_by, updated_by)
       select gen_random_uuid(), ?, 'Filler ' || n, 'a', 1, 'a', 'a', '{"retrieval": {}}', array[?], ?, ?
       from generate_series(1, ?::integer) n`,
      [orgId, key, userId, userId, count],
    );
  }

  it('returns the same from the index, for users who can read many or few documents, as by comparing all names', async () => {
    const organization = await addOrganization(db);
    const actor: Actor = {
      ...{ userId: 'ada', orgId: organization.orgId, isOrgAdmin: false },
      ...{ teamIds: [], teamAdminOf: [], openTeamIds: [] },
    };
    const names = [
      'Annual_Report-2024.pdf',
      'Report.pdf',
      'Yearly repotr.md',
      'Annual contract',
      '测试报告',
      'Reporting',
    ];
    for (const name of names) await add(organization, 'user:ada', name, 'nothing');
    const queries = ['report', 'annual rep', 'anual', '报告', 'r', 'contract annual', 'reportt', '2024', 'pdf report'];
    const before: string[][] = [];
    for (const q of queries) before.push((await search(actor, q)).items.map(({ name }) => name));
    expect(before.every((found) => found.length > 0)).equal(true);

    async function expectSame(): Promise<void> {
      for (const [place, q] of queries.entries()) {
        expect(
          (await search(actor, q)).items.map(({ name }) => name),
          q,
        ).deep.equal(before[place]);
      }
    }

    await addFillers(organization, 'user:ada', 400);
    await expectSame();
    await addFillers(organization, 'user:bob', 1_300);
    await expectSame();
    const fillers = await search(actor, 'filler');
    expect([fillers.total, fillers.items.length]).deep.equal([400, 50]);
  });
});
