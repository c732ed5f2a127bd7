import { expect } from 'chai';
import { documentLinksSchema, fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { aColleague, aDocumentIn, aFolder, aTeam, rootOf } from '#test/support/builders.ts';
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
  const list = async (member = ada) => foldersOf((await member.get(`/documents/${documentId}/links`, 200)).body);
  const link = async (folder_id: string, fields = {}, member = ada) =>
    foldersOf((await member.post(`/documents/${documentId}/links`, { folder_id, ...fields }, 201)).body);
  const addressOf = (folderId: string) => `/documents/${documentId}/links/${folderId}`;

  describe('GET /documents/{document_id}/links', () => {
    it('200: lists the folders that the caller may read, with their names', async () => {
      const folder = await aFolder(ada, shared, 'Loans');
      await link(folder.id);
      const { body } = await grace.get(`/documents/${documentId}/links`, 200);
      expect(body).deep.equal({ document_id: documentId, links: [{ folder_id: folder.id, folder_name: 'Loans' }] });
      expect(await list()).deep.equal([personal, folder.id]);
    });

    it('401: rejects a request without a token', async () => {
      await own.anonymous.get(`/documents/${documentId}/links`, 401);
    });

    it('404: rejects a document of another user', async () => {
      const eve = await own.signUp('Eve');
      for (const member of [grace, eve]) await member.get(`/documents/${documentId}/links`, 404);
      await ada.get('/documents/x/links', 404);
    });
  });

  describe('POST /documents/{document_id}/links', () => {
    it('201: puts the document into both folders and shows it to the readers of either', async () => {
      const before = fullDocumentSchema.parse((await ada.get(`/documents/${documentId}`, 200)).body);
      expect(await link(shared)).deep.equal([personal, shared]);
      const seen = fullDocumentSchema.parse((await grace.get(`/documents/${documentId}`, 200)).body);
      expect(seen).include({ updated_at: before.updated_at, updated_by: ada.userId });
      expect(seen.folder_ids).deep.equal([shared]);
    });

    it('201: changes nothing the second time, with or without an Idempotency-Key', async () => {
      const headers = { 'idempotency-key': crypto.randomUUID() };
      const body = { folder_id: shared };
      const first = await ada.post(`/documents/${documentId}/links`, body, 201, headers);
      expect((await ada.post(`/documents/${documentId}/links`, body, 201, headers)).body).deep.equal(first.body);
      expect(await link(shared)).deep.equal([personal, shared]);
    });

    it('201: promote removes the document from the folders that the caller may write to', async () => {
      const folder = await aFolder(ada, personal);
      await link(shared);
      expect(await link(folder.id, { promote: true })).deep.equal([folder.id]);
      await grace.get(`/documents/${documentId}`, 404);
      expect(await link(folder.id, { promote: true })).deep.equal([folder.id]);
    });

    it('201: promote keeps the document in a folder that is read-only or hidden for the caller', async () => {
      documentId = await aDocumentIn(grace, await rootOf(grace, 'personal_root'));
      // A team admin shares a document that its owner has put into the team's folder.
      await own.container
        .db('folderLinks')
        .insert({ orgId: ada.orgId, folderId: shared, documentId, createdBy: ada.userId });
      await own.container
        .db('documents')
        .where({ id: documentId })
        .update({ acl: [`user:${grace.userId}`, `org:${ada.orgId}`] });
      await link(personal);
      const target = (await aFolder(grace, await rootOf(grace, 'personal_root'))).id;
      expect(await link(target, { promote: true }, grace)).have.members([shared, target]);
      expect(await list()).have.members([shared, personal]);
    });

    it('401: rejects a request without a token', async () => {
      await own.anonymous.post(`/documents/${documentId}/links`, { folder_id: shared }, 401);
    });

    it('403: rejects a caller with read access only to the document or the folder', async () => {
      await link(shared);
      const ofGrace = await rootOf(grace, 'personal_root');
      await grace.post(`/documents/${documentId}/links`, { folder_id: ofGrace }, 403);
      documentId = await aDocumentIn(grace, ofGrace);
      await grace.post(`/documents/${documentId}/links`, { folder_id: shared }, 403);
    });

    it('404: rejects a document or a folder of another user', async () => {
      const eve = await own.signUp('Eve');
      await eve.post(`/documents/${documentId}/links`, { folder_id: await rootOf(eve, 'personal_root') }, 404);
      const strange = [await rootOf(eve, 'org_root'), await rootOf(grace, 'personal_root'), crypto.randomUUID()];
      for (const folder_id of strange) {
        const { body } = await ada.post(`/documents/${documentId}/links`, { folder_id }, 404);
        expect(body).include({ code: 'folder_not_found' });
      }
    });

    it('422: rejects a missing folder and unknown fields', async () => {
      for (const fields of [
        {},
        { folder_id: 'x' },
        { folder_id: shared, promote: 'yes' },
        { folder_id: shared, to: 1 },
      ]) {
        await ada.post(`/documents/${documentId}/links`, fields, 422);
      }
    });
  });

  describe('DELETE /documents/{document_id}/links/{folder_id}', () => {
    it('204: keeps the document in the other folders and removes the access keys of this one', async () => {
      await link(shared);
      await ada.delete(addressOf(shared), 204);
      expect(await list()).deep.equal([personal]);
      await grace.get(`/documents/${documentId}`, 404);
    });

    it('204: allows a caller who may write to the folder but not to the document', async () => {
      const teamId = await aTeam(ada, []);
      await ada.put(`/entity/teams/${teamId}/members/${grace.userId}`, { is_team_admin: true }, 200);
      const teamRoot = await rootOf(grace, 'team_root');
      await link(shared);
      await link(teamRoot);
      await grace.delete(addressOf(shared), 403);
      await grace.delete(addressOf(teamRoot), 204);
      expect(await list()).deep.equal([personal, shared]);
    });

    it('401: rejects a request without a token', async () => {
      await own.anonymous.delete(addressOf(personal), 401);
    });

    it('403: rejects a caller with read access only to both', async () => {
      await link(shared);
      await grace.delete(addressOf(shared), 403);
    });

    it('404: rejects a document of another user, and a folder that the document is not in', async () => {
      await grace.delete(addressOf(personal), 404);
      for (const folderId of [shared, crypto.randomUUID(), 'x']) {
        expect((await ada.delete(addressOf(folderId), 404)).body).include({ code: 'folder_not_found' });
      }
    });

    it('409: keeps the last link', async () => {
      expect((await ada.delete(addressOf(personal), 409)).body).include({ code: 'last_link' });
      await link(shared);
      const answers = await Promise.all([personal, shared].map((id) => ada.raw(addressOf(id), { method: 'DELETE' })));
      expect(answers.map(({ status }) => status).sort()).deep.equal([204, 409]);
      expect(await list()).length(1);
    });
  });
});
