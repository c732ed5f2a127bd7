import { expect } from 'chai';
import { documentLinksSchema } from '#src/modules/documents/documents.schema.ts';
import { aColleague, aDocumentIn, aFolder, aTeam, readDocument, rootOf } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

describe('the folders of a document', () => {
  let own: Stack;
  let ada: Member;
  let grace: Member;
  let personal: string;
  let shared: string;
  let documentId: string;
  before(async () => {
    own = await startStack({}, { workers: false });
  });
  after(() => own.close());
  beforeEach(async () => {
    ada = await own.signUp();
    grace = await aColleague(own, ada);
    personal = await rootOf(ada, 'personal_root');
    shared = await rootOf(ada, 'org_root');
    documentId = await aDocumentIn(ada, personal);
  });

  const foldersOf = (body: unknown) => documentLinksSchema.parse(body).links.map(({ folder_id }) => folder_id);
  const list = async () => foldersOf((await ada.get(`/documents/${documentId}/links`, 200)).body);
  const link = async (folder_id: string, fields = {}, member = ada) =>
    foldersOf((await member.post(`/documents/${documentId}/links`, { folder_id, ...fields }, 201)).body);
  const addressOf = (folderId: string) => `/documents/${documentId}/links/${folderId}`;

  it('grow by a link, which shows the document and the name of the folder to the readers of that folder', async () => {
    const before = await readDocument(ada, documentId);
    const { id } = await aFolder(ada, shared, 'Loans');
    for (const _ of ['first', 'again']) expect(await link(id)).deep.equal([personal, id]);
    const seen = await readDocument(grace, documentId);
    expect(seen).deep.include({ updated_at: before.updated_at, updated_by: ada.userId, folder_ids: [id] });
    const { body } = await grace.get(`/documents/${documentId}/links`, 200);
    expect(body).deep.equal({ document_id: documentId, links: [{ folder_id: id, folder_name: 'Loans' }] });
  });

  it('shrink to one by promotion, but for those that are read-only or hidden for the caller', async () => {
    const folder = await aFolder(ada, personal);
    await link(shared);
    expect(await link(folder.id, { promote: true })).deep.equal([folder.id]);
    await grace.get(`/documents/${documentId}`, 404);

    documentId = await aDocumentIn(grace, await rootOf(grace, 'personal_root'));
    // Only an admin puts a document into a shared folder, and only its owner could show it to one.
    const keys = { orgId: ada.orgId, folderId: shared, documentId, createdBy: ada.userId };
    await own.container.db('folderLinks').insert(keys);
    const acl = [`user:${grace.userId}`, `org:${ada.orgId}`];
    await own.container.db('documents').where({ id: documentId }).update({ acl });
    await link(personal);
    const target = (await aFolder(grace, await rootOf(grace, 'personal_root'))).id;
    expect(await link(target, { promote: true }, grace)).have.members([shared, target]);
    expect(await list()).have.members([shared, personal]);
  });

  it('accept no folder that is hidden for the caller (404), and no document that is read-only (403)', async () => {
    const eve = await own.signUp('Eve');
    for (const folder_id of [await rootOf(eve, 'org_root'), await rootOf(grace, 'personal_root')]) {
      const { body } = await ada.post(`/documents/${documentId}/links`, { folder_id }, 404);
      expect(body).include({ code: 'folder_not_found' });
    }
    await link(shared);
    await grace.post(`/documents/${documentId}/links`, { folder_id: await rootOf(grace, 'personal_root') }, 403);
  });

  it('lose a link, and with it its readers, by who may write to the folder', async () => {
    const teamId = await aTeam(ada, []);
    await ada.put(`/entity/teams/${teamId}/members/${grace.userId}`, { is_team_admin: true }, 200);
    const teamRoot = await rootOf(grace, 'team_root');
    await link(shared);
    await link(teamRoot);
    await grace.delete(addressOf(shared), 403);
    await grace.delete(addressOf(teamRoot), 204);
    expect(await list()).deep.equal([personal, shared]);
    await ada.delete(addressOf(shared), 204);
    await grace.get(`/documents/${documentId}`, 404);
    expect((await ada.delete(addressOf(shared), 404)).body).include({ code: 'folder_not_found' });
  });

  it('are never none: 409 for the last link, also of two that go at once', async () => {
    expect((await ada.delete(addressOf(personal), 409)).body).include({ code: 'last_link' });
    await link(shared);
    const answers = await Promise.all([personal, shared].map((id) => ada.raw(addressOf(id), { method: 'DELETE' })));
    expect(answers.map(({ status }) => status).sort()).deep.equal([204, 409]);
    expect(await list()).length(1);
  });
});
