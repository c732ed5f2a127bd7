import { expect } from 'chai';
import { documentLinksSchema, fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import {
  aColleague,
  aDocumentIn,
  aFolder,
  anIngestedDocument,
  anUpload,
  aTeam,
  readDocument,
  replaceOriginal,
  rootOf,
} from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack, startStack } from '#test/support/stack.ts';

const file = { name: 'fox.md', content: '# Foxes\n\nThe quick brown fox.', type: 'text/markdown' };

describe('changing a document:', () => {
  let own: Stack;
  let ada: Member;
  before(async () => {
    // Without workers, so that ingestions stay queued.
    own = await startStack({}, { workers: false });
  });
  after(() => own.close());
  beforeEach(async () => {
    ada = await own.signUp();
  });

  describe('PATCH /documents/{document_id}', () => {
    const change = async (id: string, fields: object) =>
      fullDocumentSchema.parse((await ada.patch(`/documents/${id}`, fields, 200)).body);
    const replace = (id: string, content: string, fields: Record<string, string> = {}) =>
      replaceOriginal(ada, id, { name: 'wolf.txt', content }, fields);
    async function countOriginals(): Promise<number> {
      const stored = await own.container.blobs.list({ after: null, limit: 1_000 });
      return stored.filter(({ key }) => key.startsWith(ada.orgId)).length;
    }

    it('renames a document, by JSON or by a form without a file', async () => {
      const { id } = await anUpload(ada, file, { ingest: 'false' });
      expect(await change(id, { name: 'Plan' })).include({ id, name: 'Plan', parse_job_id: null });
      const form = new FormData();
      form.set('name', 'Plan B');
      const response = await ada.raw(`/documents/${id}`, { method: 'PATCH', body: form });
      expect(fullDocumentSchema.parse(await response.json()).name).equal('Plan B');
    });

    it('moves a document and its jobs into and out of a folder that others may read', async () => {
      const grace = await aColleague(own, ada);
      const { id, parse_job_id } = await anUpload(ada, file);
      const target_folder_id = await rootOf(ada, 'org_root');
      expect((await change(id, { target_folder_id })).folder_ids).deep.equal([target_folder_id]);
      for (const path of [`/documents/${id}`, `/jobs/${parse_job_id}`]) await grace.get(path, 200);
      await change(id, { target_folder_id: await rootOf(ada, 'personal_root') });
      for (const path of [`/documents/${id}`, `/jobs/${parse_job_id}`]) await grace.get(path, 404);
    });

    it('marks chunks as stale after a change of chunking, and ingests again on request if needed', async () => {
      ada = await (await stack()).signUp();
      const id = await anIngestedDocument(ada, 'Fox', file.content);
      const fresh = { chunking_stale: false, embedding_stale: false };
      expect(await change(id, { name: 'x' })).include(fresh);
      expect((await change(id, { ingest: true })).parse_job_id).equal(`ingest-${id}-1.parse`);
      expect(await change(id, { target_tokens: 100 })).include({ chunking_stale: true, embedding_stale: true });
      const { body } = await ada.get(`/rag/config/${id}`, 200);
      expect(Object(body).config.chunking).deep.equal({ method: 'token', target_tokens: 100, overlap_tokens: 15 });
      // The document again equals the source of its generation.
      expect(await change(id, { target_tokens: 400 })).include(fresh);
      const changed = await change(id, { chunking_method: 'semantic', ingest: true });
      expect(changed.parse_job_id).equal(`ingest-${id}-2.parse`);
      const { body: refused } = await ada.patch(`/documents/${id}`, { overlap_tokens: 400 }, 422);
      expect(refused).nested.include({ 'errors[0].path': 'overlap_tokens' });
    });

    it('replaces the original, and deletes the old one unless a queued ingestion still needs it', async () => {
      const { id, folder_ids } = await anUpload(ada, file, { ingest: 'false' });
      const parse_job_id = `ingest-${id}-1.parse`;
      const replaced = await replace(id, 'The grey wolf.');
      expect(replaced).deep.include({ id, name: 'fox.md', folder_ids, source_format: 'text', parse_job_id });
      expect((await ada.get(`/documents/${id}/file`, 200)).body).equal('The grey wolf.');
      expect(await countOriginals()).equal(1);
      const stored = await replace(id, 'The white wolf.', { ingest: 'false', name: 'Wolf' });
      expect(stored).include({ name: 'Wolf', parse_job_id });
      expect(await countOriginals()).equal(2);
      expect((await replace(id, 'The black wolf.')).parse_job_id).equal(`ingest-${id}-2.parse`);
    });
  });

  describe('links to folders', () => {
    let grace: Member;
    let personal: string;
    let shared: string;
    let documentId: string;
    beforeEach(async () => {
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
    const setTeamAdmin = (teamId: string, is_team_admin: boolean) =>
      ada.patch(`/entity/teams/${teamId}/members/${grace.userId}/team-admin`, { is_team_admin }, 200);

    it('show the document to the readers of the folder, with the name of that folder only', async () => {
      const before = await readDocument(ada, documentId);
      const { id } = await aFolder(ada, shared, 'Loans');
      for (const _ of ['first', 'again']) expect(await link(id)).deep.equal([personal, id]);
      const seen = await readDocument(grace, documentId);
      expect(seen).deep.include({ updated_at: before.updated_at, updated_by: ada.userId, folder_ids: [id] });
      const { body } = await grace.get(`/documents/${documentId}/links`, 200);
      expect(body).deep.equal({ document_id: documentId, links: [{ folder_id: id, folder_name: 'Loans' }] });
    });

    it('are replaced by one link with `promote`, except in folders that the caller may not change', async () => {
      const folder = await aFolder(ada, personal);
      await link(shared);
      expect(await link(folder.id, { promote: true })).deep.equal([folder.id]);
      await grace.get(`/documents/${documentId}`, 404);

      const teamId = await aTeam(ada, [grace]);
      await setTeamAdmin(teamId, true);
      const [hers, teamRoot] = [await rootOf(grace, 'personal_root'), await rootOf(grace, 'team_root')];
      documentId = await aDocumentIn(grace, hers);
      await link(teamRoot, {}, grace);
      await link(personal);
      await setTeamAdmin(teamId, false);
      const target = (await aFolder(grace, hers)).id;
      expect(await link(target, { promote: true }, grace)).have.members([teamRoot, target]);
      expect(await list()).have.members([teamRoot, personal]);
    });

    it('cannot be made to a hidden folder (404), nor for a document that is read-only (403)', async () => {
      const eve = await own.signUp('Eve');
      for (const folder_id of [await rootOf(eve, 'org_root'), await rootOf(grace, 'personal_root')]) {
        const { body } = await ada.post(`/documents/${documentId}/links`, { folder_id }, 404);
        expect(body).include({ code: 'folder_not_found' });
      }
      await link(shared);
      await grace.post(`/documents/${documentId}/links`, { folder_id: await rootOf(grace, 'personal_root') }, 403);
    });

    it('can be removed by users who may write to the folder, whose readers then lose the document', async () => {
      await setTeamAdmin(await aTeam(ada, [grace]), true);
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

    it('cannot all be removed: 409 for the last link, also for two concurrent removals', async () => {
      expect((await ada.delete(addressOf(personal), 409)).body).include({ code: 'last_link' });
      await link(shared);
      const answers = await Promise.all([personal, shared].map((id) => ada.raw(addressOf(id), { method: 'DELETE' })));
      expect(answers.map(({ status }) => status).sort()).deep.equal([204, 409]);
      expect(await list()).length(1);
    });
  });
});
