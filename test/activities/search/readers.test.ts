import { expect } from 'chai';
import fc from 'fast-check';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { createPassageSearch } from '#src/modules/retrieval/retrieval.service.ts';
import { createSearchService, type SearchService } from '#src/modules/search/search.service.ts';
import { addIndexedDocument, addOrganization } from '#test/support/indexed-documents.ts';
import { useTestDatabase } from '#test/support/services.ts';

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
const someWords = (maxLength: number) => fc.array(fc.constantFrom(...words), { maxLength });

const documents = fc.array(fc.record({ key: fc.constantFrom(...keys), name: someWords(3), text: someWords(6) }), {
  minLength: 1,
  maxLength: 8,
});
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

describe('document search by users with different access', () => {
  const own = useTestDatabase();
  let service: SearchService;
  before(() => {
    const { db } = own;
    const analyze = createTextAnalyzer();
    const inTurn = <Result>(_: string, task: () => Promise<Result>) => task();
    const searchPassages = createPassageSearch({ db, analyze, inTurn: { words: inTurn, vectors: inTurn } });
    service = createSearchService({ db, analyze, inTurn, retrieval: { searchPassages } });
  });

  async function add(organization: Organization, key: Key, name: string, text: string): Promise<string> {
    const acl = key === 'org:one' ? [`org:${organization.orgId}`] : [key];
    const { documentId } = await addIndexedDocument(own.db, organization, [text], { acl });
    await own.db('documents').where({ id: documentId }).update({ name });
    return documentId;
  }
  const actorOf = (userId: string, orgId: string): Actor => {
    const teamIds = readers[userId]?.teams ?? [];
    return {
      userId,
      orgId,
      isOrgAdmin: false,
      teamIds,
      teamAdminOf: [],
      openTeamIds: teamIds,
      contributesToOrganization: false,
    };
  };
  const search = (actor: Actor, q: string) => service.search(actor, q, { limit: 50, offset: 0 });

  it('neither returns nor counts documents that the user may not read', async () => {
    const searched = fc.asyncProperty(documents, query, fc.constantFrom('ada', 'bob'), async (made, q, name) => {
      const [one, other] = [await addOrganization(own.db), await addOrganization(own.db)];
      const ids: string[] = [];
      for (const [place, { key, name: title, text }] of made.entries()) {
        const own = canary(place);
        const isForeign = key === 'foreign';
        // In the other organization, a key that would open the document here.
        const acl = isForeign ? 'user:ada' : key;
        ids.push(await add(isForeign ? other : one, acl, [...title, own].join('_'), [...text, own].join(' ')));
      }
      const actor = actorOf(name, one.orgId);
      const mayRead = (place: number) => readers[name]?.opened.some((key) => key === made[place]?.key);
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
        // The canaries of others are a typo away.
        const [found] = (await search(actor, canary(place))).items;
        expect(found?.id === id).equal(mayRead(place));
      }
      await add(one, name === 'ada' ? 'user:bob' : 'user:ada', q, q);
      await add(other, 'user:ada', q, q);
      expect((await search(actor, q)).total).equal(total);
    });
    await fc.assert(searched, { numRuns: 15 });
  });

  it('finds the same by its index as by comparing all names, whether the user may read most or few of the documents', async () => {
    const organization = await addOrganization(own.db);
    const actor = actorOf('ada', organization.orgId);
    const names = ['Annual_Report-2024.pdf', 'Report.pdf', 'Yearly repotr.md', 'Annual contract', '测试报告'];
    for (const name of [...names, 'Reporting']) await add(organization, 'user:ada', name, 'nothing');
    const queries = ['report', 'annual rep', 'anual', '报告', 'r', 'contract annual', 'reportt', '2024', 'pdf report'];
    const findAll = async () => {
      const found: Record<string, string[]> = {};
      for (const q of queries) found[q] = (await search(actor, q)).items.map(({ name }) => name);
      return found;
    };
    const before = await findAll();
    expect(Object.values(before).every((found) => found.length > 0)).equal(true);
    const addFillers = (key: Key, count: number) =>
      own.db.raw(
        `insert into documents
           (id, org_id, name, file_name, size_bytes, content_sha256, blob_key, rag_config, acl, created_by, updated_by)
         select gen_random_uuid(), :orgId, 'Filler ' || n, 'a', 1, 'a', 'a', '{"retrieval": {}}', array[:key], :userId, :userId
         from generate_series(1, :count) n`,
        { ...organization, key, count },
      );
    await addFillers('user:ada', 400);
    expect(await findAll()).deep.equal(before);
    await addFillers('user:bob', 1_300);
    expect(await findAll()).deep.equal(before);
    const fillers = await search(actor, 'filler');
    expect([fillers.total, fillers.items.length]).deep.equal([400, 50]);
  });
});
