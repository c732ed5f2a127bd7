import { expect } from 'chai';
import type { Knex } from 'knex';
import { aColleague, aDocumentIn, aFolder, aTeam, rootOf, treesOf } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { untilJob } from '#test/support/until-job.ts';

describe('DELETE /folders/{folder_id}', () => {
  let shared: Stack;
  let db: Knex;
  let ada: Member;
  let root: string;
  before(async () => {
    shared = await stack();
    db = shared.container.db;
  });
  beforeEach(async () => {
    ada = await shared.signUp();
    root = await rootOf(ada, 'personal_root');
  });

  const link = (documentId: string, folder_id: string, member = ada) =>
    member.post(`/documents/${documentId}/links`, { folder_id }, 201);

  it('204: deletes an empty folder', async () => {
    const { id } = await aFolder(ada, root, 'Loans');
    await ada.delete(`/folders/${id}`, 204);
    await ada.get(`/folders/${id}/info`, 404);
    expect((await treesOf(ada)).flatMap(({ folders }) => folders)).deep.equal([]);
    await aFolder(ada, root, 'Loans');
  });

  it('204: deletes subfolders and documents with cascade', async () => {
    const folder = await aFolder(ada, root);
    const inside = await aFolder(ada, folder.id);
    const documents = [await aDocumentIn(ada, folder.id), await aDocumentIn(ada, inside.id)];
    await ada.delete(`/folders/${folder.id}?cascade=true`, 204);
    await ada.get(`/folders/${inside.id}`, 404);
    for (const id of documents) {
      await ada.get(`/documents/${id}`, 404);
      await untilJob(ada, `delete-${id}`, 'succeeded');
      expect(await db('documents').where({ id }).first('id')).equal(undefined);
    }
  });

  it('204: keeps a document that is also in another folder, without the access keys of the deleted folder', async () => {
    const grace = await aColleague(shared, ada);
    const folder = await aFolder(ada, await rootOf(ada, 'org_root'));
    const inside = await aFolder(ada, folder.id);
    const documentId = await aDocumentIn(ada, root);
    for (const { id } of [folder, inside]) await link(documentId, id);
    await grace.get(`/documents/${documentId}`, 200);
    await ada.delete(`/folders/${folder.id}?cascade=true`, 204);
    expect((await ada.get(`/documents/${documentId}/links`, 200)).body).deep.equal({
      document_id: documentId,
      links: [{ folder_id: root, folder_name: 'Personal' }],
    });
    await grace.get(`/documents/${documentId}`, 404);
  });

  it('204: lets a team admin delete documents of other users in a team folder, except those in other folders', async () => {
    const [grace, olga] = [await aColleague(shared, ada), await aColleague(shared, ada)];
    const teamId = await aTeam(ada, [grace]);
    await ada.put(`/entity/teams/${teamId}/members/${olga.userId}`, { is_team_admin: true }, 200);
    const { id: folderId } = await aFolder(olga, await rootOf(olga, 'team_root'));
    const [kept, brought] = [
      await aDocumentIn(grace, await rootOf(grace, 'personal_root')),
      await aDocumentIn(ada, folderId),
    ];
    await db('folderLinks').insert({ orgId: ada.orgId, folderId, documentId: kept, createdBy: grace.userId });
    await db('documents')
      .where({ id: kept })
      .update({ acl: [`user:${grace.userId}`, `team:${teamId}`] });
    await grace.delete(`/folders/${folderId}?cascade=true`, 403);
    await olga.delete(`/folders/${folderId}?cascade=true`, 204);
    await grace.get(`/documents/${kept}`, 200);
    await olga.get(`/documents/${kept}`, 404);
    await ada.get(`/documents/${brought}`, 404);
  });

  it('204: treats a folder as empty after its documents were deleted', async () => {
    const { id } = await aFolder(ada, root);
    await ada.delete(`/documents/${await aDocumentIn(ada, id)}`, 204);
    await ada.delete(`/folders/${id}`, 204);
  });

  it('401: without a token', async () => {
    await shared.anonymous.delete(`/folders/${root}`, 401);
  });

  it('403: without write access to the folder', async () => {
    const grace = await aColleague(shared, ada);
    const { id } = await aFolder(ada, await rootOf(ada, 'org_root'));
    await grace.delete(`/folders/${id}`, 403);
  });

  it('404: for a folder that the caller cannot read, and for an invalid id', async () => {
    const [eve, grace] = [await shared.signUp('Eve'), await aColleague(shared, ada)];
    const { id } = await aFolder(ada, root);
    for (const member of [eve, grace]) await member.delete(`/folders/${id}?cascade=true`, 404);
    for (const unknown of ['root', crypto.randomUUID()]) await ada.delete(`/folders/${unknown}`, 404);
  });

  it('409: for a root folder', async () => {
    for (const id of [root, await rootOf(ada, 'org_root')]) {
      const { body } = await ada.delete(`/folders/${id}?cascade=true`, 409);
      expect(body).include({ code: 'system_folder' });
    }
  });

  it('409: for a folder with a subfolder or a document, without cascade', async () => {
    const [outer, full] = [await aFolder(ada, root), await aFolder(ada, root)];
    await aFolder(ada, outer.id);
    await aDocumentIn(ada, full.id);
    for (const { id } of [outer, full]) {
      for (const query of ['', '?cascade=false']) {
        const { body } = await ada.delete(`/folders/${id}${query}`, 409);
        expect(body).include({ code: 'folder_not_empty' });
      }
    }
  });

  it('422: for an invalid or unknown query parameter', async () => {
    await ada.delete(`/folders/${root}?cascade=perhaps`, 422);
    await ada.delete(`/folders/${root}?force=true`, 422);
  });
});
