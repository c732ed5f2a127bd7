import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { folderChildrenSchema, folderSchema, folderTreeNodeSchema } from '#src/modules/folders/folders.schema.ts';
import { createFoldersService } from '#src/modules/folders/folders.service.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('folders', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
  });

  const trees = async (member: Member) => folderTreeNodeSchema.array().parse((await member.get('/folders', 200)).body);
  const root = async (member: Member, role: string) => {
    const found = (await trees(member)).find((folder) => folder.system_role === role);
    if (found === undefined) throw new Error(`no ${role}`);
    return found;
  };
  const insertFolder = async (parentId: string, name: string) => {
    const { db } = shared.container;
    const parent = await db('folders').where({ id: parentId }).first();
    const id = uuidv7();
    await db('folders').insert({ ...parent, id, parentId, name, kind: 'user', systemRole: null, ownerId: ada.userId });
    return id;
  };

  describe('GET /folders', () => {
    it('200: returns the roots of the organization and of the caller', async () => {
      const [organization, personal] = [await root(ada, 'org_root'), await root(ada, 'personal_root')];
      expect(organization).to.include({ name: "Ada's organization", kind: 'system', visibility: 'org_level' });
      expect(personal).to.include({ kind: 'system', visibility: 'personal', can_write: true, entity_missing: false });
    });

    it('200: returns to another member the read-only organization root and their own root only', async () => {
      expect((await trees(grace)).map((folder) => [folder.system_role, folder.can_write])).to.have.deep.members([
        ['org_root', false],
        ['personal_root', true],
      ]);
    });

    it('422: for more documents than a response may have, and for an invalid query parameter', async () => {
      const { db, auth } = shared.container;
      const bob = await shared.signUp('Bob');
      const paste = () => bob.post('/documents/paste', { name: 'n', content: 'c', source_format: 'text' }, 201);
      const actor = await auth.findActor(bob.userId);
      if (actor === null) throw new Error('There is no Bob.');
      const folders = createFoldersService({ db, maxDocuments: 2 });
      const tree = () => folders.tree(actor, { withDocuments: true }).catch(({ code }: { code: string }) => code);
      await Promise.all([paste(), paste()]);
      expect(await tree()).length(2);
      await paste();
      expect(await tree()).equal('too_many_documents');
      await bob.get('/folders?include_documents=perhaps', 422);
      expect(await folders.tree(actor, { withDocuments: false })).length(2);
    });

    it('200: returns nested folders with their documents', async () => {
      const personal = await root(ada, 'personal_root');
      const laws = await insertFolder(personal.id, 'Laws');
      const taxes = await insertFolder(laws, 'Taxes');
      const fields = { target_folder_id: taxes, ingest: 'false' };
      const { body } = await ada.upload('/documents', { name: 'vat.txt', content: 'VAT' }, 201, { fields });
      const { id } = fullDocumentSchema.parse(body);
      const [child] = (await root(ada, 'personal_root')).folders;
      expect(child).to.include({ id: laws, name: 'Laws', kind: 'user', system_role: null });
      expect(child?.folders[0]).to.include({ id: taxes });
      expect(child?.folders[0]?.documents).to.deep.equal([{ id, name: 'vat.txt' }]);
    });

    it('200: returns folders without documents for include_documents=false', async () => {
      const [, personal] = folderTreeNodeSchema
        .array()
        .parse((await ada.get('/folders?include_documents=false', 200)).body);
      expect(personal?.folders.map(({ name }) => name)).deep.equal(['Laws']);
      expect(personal?.folders[0]?.folders[0]).deep.include({ name: 'Taxes', documents: [] });
    });

    it('401: without a token', async () => {
      await shared.anonymous.get('/folders', 401);
    });
  });

  describe('GET /folders/{folder_id}', () => {
    it('200: returns only the immediate children', async () => {
      const { id } = await root(ada, 'org_root');
      const outer = await insertFolder(id, 'Outer');
      await insertFolder(outer, 'Inner');
      const children = folderChildrenSchema.parse((await grace.get(`/folders/${id}`, 200)).body);
      expect(children.folders.map(({ name }) => name)).to.deep.equal(['Outer']);
      expect(children.documents).to.deep.equal([]);
    });

    it('401: without a token', async () => {
      await shared.anonymous.get(`/folders/${uuidv7()}`, 401);
    });

    it('422: for more documents than a response may have, and for a query parameter', async () => {
      const { db, auth } = shared.container;
      const bob = await shared.signUp('Bob');
      const { id } = await root(bob, 'personal_root');
      const actor = await auth.findActor(bob.userId);
      if (actor === null) throw new Error('There is no Bob.');
      const folders = createFoldersService({ db, maxDocuments: 1 });
      const codeOf = () => folders.children(actor, id).catch(({ code }: { code: string }) => code);
      for (const name of ['first', 'second']) {
        expect(await codeOf()).not.equal('too_many_documents');
        await bob.post('/documents/paste', { name, content: 'c', source_format: 'text' }, 201);
      }
      expect(await codeOf()).equal('too_many_documents');
      await bob.get(`/folders/${id}?include_documents=false`, 422);
    });

    it('404: for a folder of another user, and for an invalid id', async () => {
      const { id } = await root(ada, 'personal_root');
      for (const path of [`/folders/${id}`, `/folders/${id}/info`, '/folders/7']) {
        expect((await grace.get(path, 404)).body).to.include({ code: 'folder_not_found' });
      }
    });
  });

  describe('GET /folders/{folder_id}/info', () => {
    it('200: returns the folder without its children', async () => {
      const { folders, documents, ...alone } = await root(ada, 'org_root');
      expect(folderSchema.parse((await ada.get(`/folders/${alone.id}/info`, 200)).body)).to.deep.equal(alone);
    });
  });
});
