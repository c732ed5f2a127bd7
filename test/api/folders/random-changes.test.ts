import { expect } from 'chai';
import fc from 'fast-check';
import type { Knex } from 'knex';
import type { FolderTreeNodeDto } from '#src/modules/folders/folders.schema.ts';
import { aColleague, aTeam, rootOf, treesOf } from '#test/support/builders.ts';
import type { ApiClient, Member } from '#test/support/client.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

/** `who`, `folder`, `target` and `document` are indexes into lists that grow, modulo their length at that time. */
type Step = {
  what: (typeof steps)[number];
  who: number;
  folder: number;
  target: number;
  document: number;
  name: number;
};
const steps = [
  ...['create', 'create', 'rename', 'move', 'move', 'delete', 'cascade'],
  ...['upload', 'upload', 'link', 'link', 'unlink', 'promote', 'moveDocument'],
] as const;
const number = fc.nat({ max: 1_000 });
const step: fc.Arbitrary<Step> = fc.record({
  what: fc.constantFrom(...steps),
  ...{ who: number, folder: number, target: number, document: number, name: fc.nat({ max: 3 }) },
});

describe('random changes of folders and links by several users', () => {
  let own: Stack;
  let db: Knex;
  before(async () => {
    own = await startStack({ TIER_LIMITS: JSON.stringify({ free: { documents: 1_000 } }) }, { workers: false });
    db = own.container.db;
  });
  after(() => own.close());

  it('leave folders with the access keys of their roots, and documents with those of their folders', async () => {
    const sequences = fc.array(step, { minLength: 40, maxLength: 60 });
    await fc.assert(fc.asyncProperty(sequences, holdsAfter), { numRuns: 4, endOnFailure: true });
    const violations = await own.container.invariants.check();
    expect(violations.filter(({ invariant }) => invariant === 'I15')).deep.equal([]);
  });

  async function holdsAfter(sequence: Step[]): Promise<void> {
    const ada = await own.signUp();
    const [grace, olga] = [await aColleague(own, ada), await aColleague(own, ada)];
    const teamId = await aTeam(ada, [grace, olga]);
    await ada.put(`/entity/teams/${teamId}/members/${grace.userId}`, { is_team_admin: true }, 200);
    const users = [ada, grace, olga];
    const folders = [await rootOf(ada, 'org_root'), await rootOf(grace, 'team_root')];
    for (const user of users) folders.push(await rootOf(user, 'personal_root'));
    const documents = [crypto.randomUUID()];
    for (const one of sequence) await take(one, { users, folders, documents });

    const ofOrganization = { orgId: ada.orgId };
    expect(await db('folders').where(ofOrganization).whereIn('id', folders.slice(0, 5))).length(5);
    await expectOutdatedWhereChanged(ada.orgId);
    for (const user of users) await expectAllReadable(user);
  }

  async function take(one: Step, world: { users: Member[]; folders: string[]; documents: string[] }): Promise<void> {
    const pick = <Item>(list: Item[], index: number): Item => list[index % list.length] as Item;
    const user = pick(world.users, one.who);
    const [folder, target] = [pick(world.folders, one.folder), pick(world.folders, one.target)];
    const document = pick(world.documents, one.document);
    const name = pick(['Loans', 'loans', 'Fees', 'Café'], one.name);
    const requests: Record<Step['what'], () => Promise<Response>> = {
      create: () => send(user, 'POST', '/folders', { name, parent_id: folder }),
      rename: () => send(user, 'PATCH', `/folders/${folder}`, { name }),
      move: () => send(user, 'PATCH', `/folders/${folder}`, { parent_id: target }),
      delete: () => send(user, 'DELETE', `/folders/${folder}`),
      cascade: () => send(user, 'DELETE', `/folders/${folder}?cascade=true`),
      upload: () =>
        send(user, 'POST', '/documents/paste', {
          name,
          content: 'Words.',
          source_format: 'text',
          target_folder_id: folder,
        }),
      link: () => send(user, 'POST', `/documents/${document}/links`, { folder_id: target }),
      promote: () => send(user, 'POST', `/documents/${document}/links`, { folder_id: target, promote: true }),
      unlink: () => send(user, 'DELETE', `/documents/${document}/links/${folder}`),
      moveDocument: () => send(user, 'PATCH', `/documents/${document}`, { target_folder_id: target }),
    };
    const response = await requests[one.what]();
    expect(response.status, `${one.what}: ${response.status}`).oneOf([200, 201, 204, 403, 404, 409]);
    if (response.status !== 201 || one.what === 'link' || one.what === 'promote') return;
    const { id } = Object(await response.json());
    if (one.what === 'create') world.folders.push(id);
    else {
      world.documents.push(id);
      // Stores the keys of the vector store in `file_name`; the lease keeps the sweeper from updating them.
      const { acl } = await db('documents').where({ id }).first('acl');
      await db('documents')
        .where({ id })
        .update({ activeGeneration: 1, pointsLeasedUntil: 'infinity', fileName: acl.toSorted().join() });
    }
  }

  const send = (user: ApiClient, method: string, path: string, body?: object): Promise<Response> =>
    user.raw(path, {
      method,
      ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });

  async function expectOutdatedWhereChanged(orgId: string): Promise<void> {
    const live = await db('documents').where({ orgId }).whereNull('deletedAt').whereNull('pointsOutdatedAt');
    for (const { acl, fileName } of live) expect(acl.toSorted().join()).equal(fileName);
  }

  /** Computes the rule of visibility.ts in SQL: readers of a folder see all documents in it. */
  async function expectAllReadable(user: Member): Promise<void> {
    const shown = (await treesOf(user)).flatMap(placesOf);
    const { rows } = await db.raw<{ rows: { place: string }[] }>(
      `select f.id || ' ' || coalesce(d.id::text, '') as place
       from folders f
       left join (folder_links l join documents d on d.id = l.document_id and d.deleted_at is null) on l.folder_id = f.id
       where f.org_id = :orgId and (
         f.visibility = 'org_level' or f.owner_id = :userId
         or exists (
           select from memberships m where m.user_id = :userId and f.visibility = 'team_level' and m.is_org_admin
         )
         or f.team_id in (select t.team_id from team_memberships t where t.user_id = :userId)
       )`,
      { orgId: user.orgId, userId: user.userId },
    );
    const expected = rows.map(({ place }) => place);
    expect(shown).to.have.members(expected);
  }

  function placesOf(node: FolderTreeNodeDto): string[] {
    const here = node.documents.length === 0 ? [`${node.id} `] : node.documents.map(({ id }) => `${node.id} ${id}`);
    return [...here, ...node.folders.flatMap(placesOf)];
  }
});
