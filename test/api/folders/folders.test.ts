import { expect } from 'chai';
import fc from 'fast-check';
import type { Knex } from 'knex';
import { documentListSchema } from '#src/modules/documents/documents.schema.ts';
import { type FolderDto, type FolderTreeNodeDto, folderSchema } from '#src/modules/folders/folders.schema.ts';
import { createFoldersService } from '#src/modules/folders/folders.service.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { aColleague, aDocumentIn, aFolder, aTeam, rootOf, treesOf } from '#test/support/builders.ts';
import { type ApiClient, type Member, sendJson, statusesOf } from '#test/support/client.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

const ROUNDS = 8;

const folderChanges = ['create', 'rename', 'move', 'delete', 'cascade'] as const;
const documentChanges = ['upload', 'link', 'unlink', 'promote', 'moveDocument'] as const;
const number = fc.nat({ max: 1_000 });
/** Numbers are indexes into lists that grow, modulo their length at that time. */
const step = fc.record({
  // Some changes are made more often.
  what: fc.constantFrom('create', 'move', 'upload', 'link', ...folderChanges, ...documentChanges),
  who: number,
  folder: number,
  target: number,
  document: number,
  name: fc.nat({ max: 3 }),
});
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;

describe('folders:', () => {
  let own: Stack;
  let db: Knex;
  let ada: Member;
  let personal: string;
  let shared: string;
  before(async () => {
    // Workers would update the vector store and reset `points_outdated_at`.
    own = await startStack({ TIER_LIMITS: '{"free":{"documents":1000}}' }, { workers: false });
    db = own.container.db;
  });
  after(() => own.close());
  beforeEach(async () => {
    ada = await own.signUp();
    personal = await rootOf(ada, 'personal_root');
    shared = await rootOf(ada, 'org_root');
  });

  const nodesOf = (nodes: FolderTreeNodeDto[]): FolderTreeNodeDto[] =>
    nodes.flatMap((node) => [node, ...nodesOf(node.folders)]);
  const nodeOf = async (id: string) => nodesOf(await treesOf(ada)).find((node) => node.id === id);
  const infoOf = async (id: string, member = ada) =>
    folderSchema.parse((await member.get(`/folders/${id}/info`, 200)).body);
  const create = (name: string, parent_id: string, status: number) => ada.post('/folders', { name, parent_id }, status);
  const change = async (id: string, fields: object): Promise<FolderDto> =>
    folderSchema.parse((await ada.patch(`/folders/${id}`, fields, 200)).body);
  const refuse = async (id: string, fields: object, code: string, status = 409) =>
    expect((await ada.patch(`/folders/${id}`, fields, status)).body).include({ code });
  const remove = (id: string, status: number) => ada.delete(`/folders/${id}?cascade=true`, status);

  describe('reading folders', () => {
    it('shows the tree with or without documents, the children of a folder, and a single folder', async () => {
      const laws = await aFolder(ada, personal, '  Laws ');
      expect(laws).include({ name: 'Laws', kind: 'user', system_role: null, visibility: 'personal', can_write: true });
      const taxes = await aFolder(ada, laws.id, 'Taxes');
      const id = await aDocumentIn(ada, taxes.id, 'vat.txt');
      const tree = await nodeOf(personal);
      const documents = [{ id, name: 'vat.txt' }];
      expect(tree?.folders).deep.equal([{ ...laws, documents: [], folders: [{ ...taxes, documents, folders: [] }] }]);
      const without = Object((await ada.get('/folders?include_documents=false', 200)).body);
      expect(nodesOf(without).find((node) => node.id === taxes.id)).deep.include({ documents: [] });
      const { body } = await ada.get(`/folders/${laws.id}`, 200);
      expect(body).nested.include({ 'folders.length': 1, 'folders[0].id': taxes.id, 'documents.length': 0 });
      expect(await infoOf(taxes.id)).deep.equal(taxes);
    });

    it('is refused (422) if the response would have too many documents', async () => {
      const actor = (await own.container.auth.findActor(ada.userId)) ?? expect.fail('There is no Ada.');
      const folders = createFoldersService({ db, maxDocuments: 1 });
      const [tree, children] = [
        () => folders.tree(actor, { withDocuments: true }),
        () => folders.children(actor, personal),
      ];
      await aDocumentIn(ada, personal, 'first');
      await Promise.all([tree(), children()]);
      await aDocumentIn(ada, personal, 'second');
      for (const ask of [tree, children]) expect(await appErrorCode(ask())).equal('too_many_documents');
      expect(await folders.tree(actor, { withDocuments: false })).length(2);
    });
  });

  describe('creating a folder', () => {
    it('is refused (409) for the name of a sibling in any letter case or Unicode form, also concurrently', async () => {
      await aFolder(ada, personal, 'Café');
      for (const name of ['Café', 'CAFÉ', 'Cafe\u0301', ' café ']) {
        expect((await create(name, personal, 409)).body).include({ code: 'name_taken' });
      }
      await aFolder(ada, shared, 'Café');
      const asked = ['Loans', 'LOANS', 'loans', 'lOANS'].map((name) =>
        sendJson(ada, 'POST', '/folders', { name, parent_id: personal }),
      );
      expect(await statusesOf(asked)).deep.equal([201, 409, 409, 409]);
    });

    it('or moving a folder to level 33 is refused (409)', async () => {
      const folder = await aFolder(ada, personal);
      await aFolder(ada, folder.id);
      let parent = personal;
      for (let level = 2; level <= 31; level += 1) parent = (await aFolder(ada, parent)).id;
      await refuse(folder.id, { parent_id: parent }, 'folder_too_deep');
      parent = (await aFolder(ada, parent)).id;
      expect((await create('Deeper', parent, 409)).body).include({ code: 'folder_too_deep' });
      await treesOf(ada);
    });

    it('is refused (409) for folder 10,001 of an organization', async () => {
      await db.raw(
        `insert into folders (id, org_id, parent_id, root_id, name, kind, visibility, owner_id, acl, created_by)
         select gen_random_uuid(), org_id, id, id, 'Folder ' || n, 'user', visibility, owner_id, acl, created_by
         from folders cross join generate_series(1, 9999) n where id = ?`,
        [personal],
      );
      await aFolder(ada, personal, `…${'x'.repeat(254)}`);
      expect((await create('One more', personal, 409)).body).include({ code: 'folder_limit_reached' });
      expect((await nodeOf(personal))?.folders).length(10_000);
    });
  });

  describe('changing a folder', () => {
    it('can rename it, even if only the letter case changes, and can move it with its contents', async () => {
      const [from, to] = [await aFolder(ada, personal, 'From'), await aFolder(ada, personal, 'To')];
      const folder = await aFolder(ada, from.id, 'Loans');
      const renamed = await change(folder.id, { name: 'LOANS' });
      expect(renamed).deep.equal({ ...folder, name: 'LOANS', updated_at: renamed.updated_at });
      expect(Date.parse(renamed.updated_at)).above(Date.parse(folder.updated_at));
      expect(await change(folder.id, { name: 'LOANS', parent_id: from.id })).deep.equal(renamed);

      for (const [parent, name] of [
        [from, 'Fees'],
        [to, 'Loans'],
      ] as const)
        await aFolder(ada, parent.id, name);
      const id = await aDocumentIn(ada, folder.id);
      expect(await change(folder.id, { parent_id: to.id, name: 'Fees' })).include({ name: 'Fees' });
      const moved = await nodeOf(to.id);
      expect(moved?.folders.map(({ name }) => name)).deep.equal(['Fees', 'Loans']);
      expect(moved?.folders[0]?.documents).deep.equal([{ id, name: 'note.txt' }]);
    });

    it('lets readers of the new root read a moved folder, its documents and jobs, until it moves back', async () => {
      const grace = await aColleague(own, ada);
      await aTeam(ada, [grace]);
      const parent_id = await rootOf(grace, 'team_root');
      const folder = await aFolder(ada, personal);
      const inside = await aFolder(ada, folder.id);
      const [above, below] = [await aDocumentIn(ada, folder.id), await aDocumentIn(ada, inside.id)];
      await ada.post(`/rag/ingest/${below}`, {}, 200);
      await db('documents').where({ id: above }).update({ activeGeneration: 1 });
      const paths = [`/folders/${inside.id}/info`, `/documents/${above}`, `/documents/${below}`];
      const ask = async (status: number) => {
        for (const path of [...paths, `/jobs/ingest-${below}-1`]) await grace.get(path, status);
      };
      await ask(404);
      expect(await change(folder.id, { parent_id })).include({ visibility: 'team_level' });
      await ask(200);
      expect((await infoOf(inside.id, grace)).visibility).equal('team_level');
      const outdated = db('documents').where({ orgId: ada.orgId }).whereNotNull('pointsOutdatedAt');
      expect(await outdated.pluck('id')).deep.equal([above]);
      await change(folder.id, { parent_id: personal });
      await ask(404);
    });

    it('is refused for a parent folder that is read-only (403) or hidden (404)', async () => {
      const [eve, grace] = [await own.signUp('Eve'), await aColleague(own, ada)];
      const folder = await aFolder(ada, shared);
      const hers = await aFolder(grace, await rootOf(grace, 'personal_root'));
      await grace.patch(`/folders/${hers.id}`, { parent_id: folder.id }, 403);
      for (const parent_id of [await rootOf(eve, 'org_root'), hers.id]) {
        await refuse(folder.id, { parent_id }, 'folder_not_found', 404);
      }
    });

    it('is refused (409) for a root, for a name that a sibling has, and for a move below itself', async () => {
      for (const root of [personal, shared]) await refuse(root, { name: 'Mine' }, 'system_folder');
      await refuse(personal, { parent_id: shared }, 'system_folder');
      const [loans, fees] = [await aFolder(ada, personal, 'Loans'), await aFolder(ada, personal, 'Fees')];
      await refuse(fees.id, { name: 'lOANS' }, 'name_taken');
      const inside = await aFolder(ada, loans.id, 'fees');
      await refuse(inside.id, { parent_id: personal }, 'name_taken');
      const deeper = await aFolder(ada, inside.id);
      for (const parent_id of [loans.id, deeper.id]) await refuse(loans.id, { parent_id }, 'folder_cycle');
      expect(await infoOf(inside.id)).deep.equal(inside);
      await refuse(loans.id, {}, 'validation_failed', 422);
    });
  });

  describe('members of a team', () => {
    let grace: Member;
    let olga: Member;
    let root: string;
    beforeEach(async () => {
      [grace, olga] = [await aColleague(own, ada), await aColleague(own, ada)];
      await aTeam(ada, [grace, olga]);
      root = await rootOf(grace, 'team_root');
    });

    it('add documents and folders to its tree, and change and delete what they made', async () => {
      expect(await infoOf(root, grace)).include({ can_write: true, can_change: false });
      const folder = await aFolder(grace, root, 'Loans');
      expect(folder).include({ can_write: true, can_change: true, visibility: 'team_level' });
      const id = await aDocumentIn(grace, folder.id);
      await olga.get(`/documents/${id}`, 200);
      await grace.patch(`/documents/${id}`, { name: 'mine.txt' }, 200);
      await grace.patch(`/folders/${folder.id}`, { name: 'Fees' }, 200);
      await grace.post(
        `/documents/${id}/links`,
        { folder_id: await rootOf(grace, 'personal_root'), promote: true },
        201,
      );
      await olga.get(`/documents/${id}`, 404);
      await grace.delete(`/folders/${folder.id}`, 204);
    });

    it('add to the folders of each other, but change nothing that a colleague made (403)', async () => {
      const folder = await aFolder(grace, root);
      expect(await infoOf(folder.id, olga)).include({ can_write: true, can_change: false });
      const [hers, her] = [await aFolder(olga, folder.id), await aDocumentIn(olga, folder.id)];
      for (const id of [folder.id, root]) await grace.post(`/documents/${her}/links`, { folder_id: id }, 403);
      await olga.patch(`/folders/${folder.id}`, { name: 'Fees' }, 403);
      await olga.delete(`/folders/${folder.id}`, 403);
      await grace.patch(`/documents/${her}`, { name: 'fees.txt' }, 403);
      // The folder is hers, but what her colleague put into it stays with the team.
      const { id: away } = await aFolder(grace, await rootOf(grace, 'personal_root'));
      const take = async (status: number) => {
        await grace.patch(`/folders/${folder.id}`, { parent_id: away }, status);
        await grace.delete(`/folders/${folder.id}?cascade=true`, status);
      };
      await grace.delete(`/folders/${folder.id}`, 409);
      await take(403);
      await olga.delete(`/folders/${hers.id}`, 204);
      await take(403);
      await olga.delete(`/documents/${her}`, 204);
      await grace.patch(`/folders/${folder.id}`, { parent_id: away }, 200);
    });

    it('keep write access to nothing in its tree but their documents after they have left it', async () => {
      const folder = await aFolder(grace, root);
      const id = await aDocumentIn(grace, folder.id);
      const [team] = Object((await grace.get('/entity/me/membership', 200)).body).teams;
      await ada.delete(`/entity/teams/${team.team_id}/members/${grace.userId}`, 204);
      await grace.patch(`/folders/${folder.id}`, { name: 'Fees' }, 404);
      await grace.post('/folders', { name: 'Fees', parent_id: root }, 404);
      await grace.patch(`/documents/${id}`, { name: 'mine.txt' }, 200);
    });
  });

  describe('deleting a folder', () => {
    it('needs cascade if it is not empty (409), and is refused for a root folder (409)', async () => {
      const { id: empty } = await aFolder(ada, personal, 'Loans');
      await ada.delete(`/documents/${await aDocumentIn(ada, empty)}`, 204);
      await ada.delete(`/folders/${empty}`, 204);
      await ada.get(`/folders/${empty}/info`, 404);
      await aFolder(ada, personal, 'Loans');
      const [outer, full] = [await aFolder(ada, personal), await aFolder(ada, personal)];
      const inside = await aFolder(ada, outer.id);
      const documents = [await aDocumentIn(ada, full.id), await aDocumentIn(ada, inside.id)];
      for (const { id } of [outer, full]) {
        for (const query of ['', '?cascade=false']) {
          expect((await ada.delete(`/folders/${id}${query}`, 409)).body).include({ code: 'folder_not_empty' });
        }
        await remove(id, 204);
      }
      await ada.get(`/folders/${inside.id}`, 404);
      for (const id of documents) {
        await ada.get(`/documents/${id}`, 404);
        expect((await ada.get(`/jobs/delete-${id}`, 200)).body).include({ status: 'queued' });
      }
      for (const id of [personal, shared]) expect((await remove(id, 409)).body).include({ code: 'system_folder' });
    });

    it('keeps a document that another folder has too, but users who read only the deleted folder lose it', async () => {
      const grace = await aColleague(own, ada);
      const folder = await aFolder(ada, shared);
      const inside = await aFolder(ada, folder.id);
      const document_id = await aDocumentIn(ada, personal);
      for (const { id } of [folder, inside]) {
        await ada.post(`/documents/${document_id}/links`, { folder_id: id }, 201);
      }
      await grace.get(`/documents/${document_id}`, 200);
      await remove(folder.id, 204);
      const links = [{ folder_id: personal, folder_name: 'Personal' }];
      expect((await ada.get(`/documents/${document_id}/links`, 200)).body).deep.equal({ document_id, links });
      await grace.get(`/documents/${document_id}`, 404);
    });

    it('by a team admin also deletes documents of other users, unless these are in another folder too', async () => {
      const [grace, olga] = [await aColleague(own, ada), await aColleague(own, ada)];
      const teamId = await aTeam(ada, [grace, olga]);
      const setTeamAdmin = ({ userId }: Member, is_team_admin: boolean) =>
        ada.patch(`/entity/teams/${teamId}/members/${userId}/team-admin`, { is_team_admin }, 200);
      for (const member of [grace, olga]) await setTeamAdmin(member, true);
      const { id: folderId } = await aFolder(olga, await rootOf(olga, 'team_root'));
      const kept = await aDocumentIn(grace, await rootOf(grace, 'personal_root'));
      const brought = await aDocumentIn(ada, folderId);
      await grace.post(`/documents/${kept}/links`, { folder_id: folderId }, 201);
      await setTeamAdmin(grace, false);
      await grace.delete(`/folders/${folderId}?cascade=true`, 403);
      await olga.delete(`/folders/${folderId}?cascade=true`, 204);
      await grace.get(`/documents/${kept}`, 200);
      await olga.get(`/documents/${kept}`, 404);
      await ada.get(`/documents/${brought}`, 404);
    });
  });

  it('a folder with 1,501 documents, which needs several statements, can be moved and deleted', async () => {
    const folder = await aFolder(ada, personal);
    const id = await aDocumentIn(ada, folder.id);
    // The copies are in the same folders as the document.
    await db.raw(
      `with copies as (
         insert into documents (id, org_id, name, file_name, size_bytes, content_sha256, blob_key, rag_config, acl, created_by, updated_by)
         select gen_random_uuid(), org_id, name || n, file_name, size_bytes, content_sha256, blob_key, rag_config, acl, created_by, updated_by
         from documents cross join generate_series(1, 1500) n where id = :id
         returning id, org_id, created_by
       )
       insert into folder_links (org_id, folder_id, document_id, created_by)
       select c.org_id, l.folder_id, c.id, c.created_by from copies c cross join folder_links l where l.document_id = :id`,
      { id },
    );
    await change(folder.id, { parent_id: shared });
    const grace = await aColleague(own, ada);
    expect((await grace.get('/documents', 200)).body).include({ total: 1_501 });
    await remove(folder.id, 204);
    for (const member of [ada, grace]) {
      expect((await member.get('/documents', 200)).body).include({ total: 0 });
      expect((await member.get('/jobs/summary?kind=delete', 200)).body).include({ queued: 1_501 });
    }
  });

  describe('concurrent changes of folders and links', () => {
    /** Folders are trees with the access keys of their root, and documents have those of their folders and author. */
    async function expectRightKeys(): Promise<void> {
      const violations = await own.container.invariants.check();
      expect(violations.filter(({ invariant }) => invariant === 'I15')).deep.equal([]);
    }
    afterEach(expectRightKeys);

    const paste = (target_folder_id: string, name = 'Note', user: ApiClient = ada) =>
      sendJson(user, 'POST', '/documents/paste', { name, content: 'Words.', source_format: 'text', target_folder_id });
    const move = (id: string, parent_id: string) => sendJson(ada, 'PATCH', `/folders/${id}`, { parent_id });

    it('lead to 409 for one of 16 moves that together would form a cycle', async () => {
      const ring = await Promise.all(Array.from({ length: 16 }, () => aFolder(ada, personal)));
      const moves = ring.map(({ id }, index) => move(id, ring[(index + 1) % 16]?.id ?? ''));
      expect(await statusesOf(moves)).deep.equal([...Array(15).fill(200), 409]);
      const names = JSON.stringify(await treesOf(ada));
      for (const { id } of ring) expect(names).contain(id);
    });

    it('leave a document that is added, linked or moved meanwhile readable for the readers of its final folders', async () => {
      const [one, two] = [await aFolder(ada, personal), await aFolder(ada, shared)];
      const { id } = Object(await (await paste(one.id)).json());
      const link = () => sendJson(ada, 'POST', `/documents/${id}/links`, { folder_id: two.id });
      const unlink = () => sendJson(ada, 'DELETE', `/documents/${id}/links/${two.id}`);
      const moveDocument = () => sendJson(ada, 'PATCH', `/documents/${id}`, { target_folder_id: one.id });
      for (let round = 0; round < ROUNDS; round += 1) {
        const [here, there] = round % 2 === 0 ? [shared, personal] : [personal, shared];
        const added = [paste(one.id), move(one.id, here), paste(one.id)];
        const asked = [link(), move(two.id, there), moveDocument(), unlink(), link()];
        for (const { status } of await Promise.all(asked)) expect(status).oneOf([200, 201, 204, 404, 409]);
        expect(await statusesOf(added)).deep.equal([200, 201, 201]);
        await expectRightKeys();
      }
    });

    it('leave no document in a folder that is deleted while the document is added', async () => {
      for (let round = 0; round < ROUNDS; round += 1) {
        const { id } = await aFolder(ada, personal);
        const remove = sendJson(ada, 'DELETE', `/folders/${id}?cascade=true`);
        const [first, removed, second] = await Promise.all([paste(id), remove, paste(id)]);
        expect(removed.status).equal(204);
        for (const answer of [first, second]) {
          const body = Object(await answer.json());
          if (answer.status === 404) expect(body.code).oneOf(['folder_not_found', 'document_not_found']);
          else await ada.get(`/documents/${body.id}`, 404);
        }
      }
    });

    it('leave each user with exactly what they may read after random changes by three users', async () => {
      const sequences = fc.array(step, { minLength: 40, maxLength: 60 });
      await fc.assert(fc.asyncProperty(sequences, holdsAfter), { numRuns: 4, endOnFailure: true });
    });

    async function holdsAfter(sequence: Step[]): Promise<void> {
      const admin = await own.signUp();
      const [grace, olga] = [await aColleague(own, admin), await aColleague(own, admin)];
      const teamId = await aTeam(admin, [grace, olga]);
      await admin.put(`/entity/teams/${teamId}/members/${grace.userId}`, { is_team_admin: true }, 200);
      const users = [admin, grace, olga];
      const folders = [await rootOf(admin, 'org_root'), await rootOf(grace, 'team_root')];
      for (const user of users) folders.push(await rootOf(user, 'personal_root'));
      const documents = [crypto.randomUUID()];
      for (const one of sequence) await take(one, { users, folders, documents });
      for (const user of users) await expectAllShown(user);
    }

    async function take(one: Step, world: { users: Member[]; folders: string[]; documents: string[] }): Promise<void> {
      const pick = <Item>(list: Item[], index: number): Item => list[index % list.length] as Item;
      const user = pick(world.users, one.who);
      const [folder, target] = [pick(world.folders, one.folder), pick(world.folders, one.target)];
      const document = pick(world.documents, one.document);
      const name = pick(['Loans', 'loans', 'Fees', 'Café'], one.name);
      const links = `/documents/${document}/links`;
      const requests: Record<Step['what'], () => Promise<Response>> = {
        create: () => sendJson(user, 'POST', '/folders', { name, parent_id: folder }),
        rename: () => sendJson(user, 'PATCH', `/folders/${folder}`, { name }),
        move: () => sendJson(user, 'PATCH', `/folders/${folder}`, { parent_id: target }),
        delete: () => sendJson(user, 'DELETE', `/folders/${folder}`),
        cascade: () => sendJson(user, 'DELETE', `/folders/${folder}?cascade=true`),
        upload: () => paste(folder, name, user),
        link: () => sendJson(user, 'POST', links, { folder_id: target }),
        promote: () => sendJson(user, 'POST', links, { folder_id: target, promote: true }),
        unlink: () => sendJson(user, 'DELETE', `${links}/${folder}`),
        moveDocument: () => sendJson(user, 'PATCH', `/documents/${document}`, { target_folder_id: target }),
      };
      const response = await requests[one.what]();
      expect(response.status, `${one.what}: ${response.status}`).oneOf([200, 201, 204, 403, 404, 409]);
      if (response.status !== 201 || !['create', 'upload'].includes(one.what)) return;
      const { id } = Object(await response.json());
      (one.what === 'create' ? world.folders : world.documents).push(id);
    }

    /** The tree of a user shows every document that they may read, in all folders that they may read. */
    async function expectAllShown(user: Member): Promise<void> {
      const { items } = documentListSchema.parse((await user.get('/documents?limit=100', 200)).body);
      const places = items.flatMap(({ id, folder_ids }) => folder_ids.map((folder) => `${folder} ${id}`));
      const shown = ({ id, documents, folders }: FolderTreeNodeDto): string[] => [
        ...documents.map((document) => `${id} ${document.id}`),
        ...folders.flatMap(shown),
      ];
      expect((await treesOf(user)).flatMap(shown)).have.members(places);
    }
  });
});
