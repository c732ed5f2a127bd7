import { expect } from 'chai';
import fc from 'fast-check';
import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { defaultRagConfig } from '#src/domain/documents/rag-config.ts';
import { documentTotalsMatchDocuments } from '#src/modules/store-audit/invariants/documents.ts';
import { useTestDatabase } from '#test/support/services.ts';

const keys = ['a', 'b', 'c', 'd'];
/** `places` are positions in the list of existing documents; each kind of change reads some of the other fields. */
const anyChange = fc.record({
  kind: fc.constantFrom('add', 'share', 'replace', 'mark', 'purge', 'touch'),
  places: fc.uniqueArray(fc.nat({ max: 9 }), { minLength: 1, maxLength: 10 }),
  count: fc.integer({ min: 1, max: 5 }),
  acl: fc.subarray(keys, { minLength: 1 }),
  sizeBytes: fc.nat({ max: 1_000 }),
});
type Change = typeof anyChange extends fc.Arbitrary<infer Value> ? Value : never;
describe('document totals', () => {
  const own = useTestDatabase(8);
  const [orgId, userId, folderId] = [uuidv7(), uuidv7(), uuidv7()];

  before(async () => {
    const { db } = own;
    await db('organizations').insert({ id: orgId, name: 'Bench' });
    await db('users').insert({ id: userId, email: 'ada@example.com', displayName: 'Ada' });
    const root = { name: 'Root', kind: 'system', systemRole: 'org_root', visibility: 'org_level' };
    await db('folders').insert({ ...root, id: folderId, orgId, rootId: folderId, acl: keys, createdBy: userId });
  });

  async function add(trx: Knex, { count, acl, sizeBytes }: Omit<Change, 'kind' | 'places'>): Promise<string[]> {
    const ids = Array.from({ length: count }, () => uuidv7());
    const ragConfig = JSON.stringify(defaultRagConfig({ embeddingModel: 'any', hasReranker: false }));
    const of = { orgId, name: 'Note', fileName: 'note.txt', sizeBytes, contentSha256: '', ragConfig, acl };
    await trx('documents').insert(ids.map((id) => ({ ...of, id, blobKey: id, createdBy: userId, updatedBy: userId })));
    await trx('folderLinks').insert(ids.map((documentId) => ({ orgId, folderId, documentId, createdBy: userId })));
    return ids;
  }

  /**
   * Locks documents once, in the order of their ids, before the first change of some that exist. A transaction that
   * locked again could find a document of a lower id, committed meanwhile, and deadlock with the one that holds it.
   */
  async function applyAll(trx: Knex, changes: readonly Change[]): Promise<void> {
    let held: readonly string[] | undefined;
    const added: string[] = [];
    for (const change of changes) {
      if (change.kind === 'add') added.push(...(await add(trx, change)));
      else {
        held ??= await trx('documents').orderBy('id').limit(10).forNoKeyUpdate().pluck('id');
        await apply(trx, change, [...new Set([...held, ...added])]);
      }
    }
  }

  async function apply(trx: Knex, change: Change, ids: readonly string[]): Promise<void> {
    const chosen = change.places.flatMap((place) => ids[place] ?? []);
    const some = trx('documents').whereIn('id', chosen);
    if (change.kind === 'purge') await some.delete();
    if (change.kind === 'mark') await some.update({ deletedAt: trx.fn.now(), acl: [] });
    if (change.kind === 'share') await some.whereNull('deletedAt').update({ acl: change.acl });
    if (change.kind === 'replace') await some.update({ sizeBytes: change.sizeBytes });
    if (change.kind === 'touch') await some.update({ updatedAt: trx.raw('clock_timestamp()') });
  }

  async function violations(): Promise<string[]> {
    const found: string[] = [];
    const deps = { db: own.db } as Parameters<typeof documentTotalsMatchDocuments.run>[0];
    const grace = { orphanSeconds: 0, reconcileSeconds: 0, dispatchSeconds: 0, erasureSeconds: 0 };
    await documentTotalsMatchDocuments.run(deps, grace, ({ detail }) => void found.push(detail));
    return found;
  }

  it('are exact after concurrent changes of documents, some of which are rolled back', async () => {
    const undone = new Error('undone');
    const changes = fc.array(anyChange, { minLength: 1, maxLength: 4 });
    const anyTransactions = fc.array(fc.tuple(changes, fc.boolean()), { minLength: 1, maxLength: 8 });
    const transact = ([changes, fails]: [changes: Change[], fails: boolean]) =>
      own.db.transaction(async (trx) => {
        await applyAll(trx, changes);
        if (fails) throw undone;
      });
    const exact = fc.asyncProperty(anyTransactions, async (transactions) => {
      const ends = transactions.map((each) => transact(each).catch((error: unknown) => expect(error).equal(undone)));
      await Promise.all(ends);
      expect(await violations()).deep.equal([]);
    });
    await fc.assert(exact, { numRuns: 30 });
  });
});
