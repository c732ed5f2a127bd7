import { expect } from 'chai';
import { documentLinksSchema, fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import {
  aColleague,
  aDocumentIn,
  aFolder,
  anUpload,
  aTeam,
  readDocument,
  replaceOriginal,
  rootOf,
} from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

const file = { name: 'fox.md', content: '# Foxes\n\nThe quick brown fox.', type: 'text/markdown' };

describe('changing a document:', () => {
  let stack: Stack;
  let ada: Member;
  before(async () => {
    // Without workers, so that only requests change anything.
    stack = await startStack({}, { workers: false });
  });
  after(() => stack.close());
  beforeEach(async () => {
    ada = await stack.signUp();
  });

  describe('PATCH /documents/{document_id}', () => {
    const upload = (fields: Record<string, string> = {}, as = ada) => anUpload(as, file, fields);
    const change = async (id: string, fields: object) =>
      fullDocumentSchema.parse((await ada.patch(`/documents/${id}`, fields, 200)).body);
    const replace = (id: string, content: string, fields: Record<string, string> = {}) =>
      replaceOriginal(ada, id, { name: 'wolf.txt', content }, fields);
    const original = async (id: string) => (await ada.raw(`/documents/${id}/file`)).text();
    const blobKeyOf = async (id: string) => (await stack.container.db('documents').where({ id }).first()).blobKey;

    /** Simulates a finished ingestion of the newest generation. */
    async function activate(documentId: string): Promise<void> {
      const { db } = stack.container;
      await db('documents')
        .where({ id: documentId })
        .update({ activeGeneration: db.ref('generation') });
      await db('jobs').where({ documentId }).update({ status: 'succeeded', finishedAt: db.fn.now() });
    }

    it('renames a document, by JSON or by a form without a file', async () => {
      const { id } = await upload({ ingest: 'false' });
      expect(await change(id, { name: 'Plan' })).include({ id, name: 'Plan', parse_job_id: null });
      const form = new FormData();
      form.set('name', 'Plan B');
      const response = await ada.raw(`/documents/${id}`, { method: 'PATCH', body: form });
      expect(fullDocumentSchema.parse(await response.json()).name).equal('Plan B');
    });

    it('moves a document and its jobs into and out of a folder that others may read', async () => {
      const grace = await aColleague(stack, ada);
      const { id, parse_job_id } = await upload();
      const target_folder_id = await rootOf(ada, 'org_root');
      expect((await change(id, { target_folder_id })).folder_ids).deep.equal([target_folder_id]);
      for (const path of [`/documents/${id}`, `/jobs/${parse_job_id}`]) await grace.get(path, 200);
      await change(id, { target_folder_id: await rootOf(ada, 'personal_root') });
      for (const path of [`/documents/${id}`, `/jobs/${parse_job_id}`]) await grace.get(path, 404);
    });

    it('rejects a target folder that is read-only (403) or hidden (404) for the caller', async () => {
      const grace = await aColleague(stack, ada);
      const { id } = await upload({ ingest: 'false' }, grace);
      const into = async (member: Member, role: 'org_root' | 'personal_root') => ({
        target_folder_id: await rootOf(member, role),
      });
      await grace.patch(`/documents/${id}`, await into(ada, 'org_root'), 403);
      const { body } = await grace.patch(`/documents/${id}`, await into(ada, 'personal_root'), 404);
      expect(body).include({ code: 'folder_not_found' });
    });

    it('marks chunks as stale after a change of chunking, and ingests again on request if needed', async () => {
      const { id } = await upload();
      await activate(id);
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

    it('replaces the original, ingests the new one, and deletes the old one once it is unused', async () => {
      const { id, folder_ids } = await upload({ ingest: 'false' });
      const old = await blobKeyOf(id);
      const replaced = await replace(id, 'The grey wolf.');
      expect(replaced).include({ id, name: 'fox.md', source_format: 'text', parse_job_id: `ingest-${id}-1.parse` });
      expect(replaced.folder_ids).deep.equal(folder_ids);
      expect(await original(id)).equal('The grey wolf.');
      expect(await stack.container.blobs.exists(old)).equal(false);
    });

    it('keeps the old original for a queued ingestion, and starts a new generation for the new original', async () => {
      const { id } = await upload();
      const old = await blobKeyOf(id);
      const stored = await replace(id, 'The grey wolf.', { ingest: 'false', name: 'Wolf' });
      expect(stored).include({ name: 'Wolf', parse_job_id: `ingest-${id}-1.parse` });
      expect(await stack.container.blobs.exists(old)).equal(true);
      expect((await replace(id, 'The white wolf.')).parse_job_id).equal(`ingest-${id}-2.parse`);
    });
  });

  describe('links to folders', () => {
    let grace: Member;
    let personal: string;
    let shared: string;
    let documentId: string;
    beforeEach(async () => {
      grace = await aColleague(stack, ada);
      personal = await rootOf(ada, 'personal_root');
      shared = await rootOf(ada, 'org_root');
      documentId = await aDocumentIn(ada, personal);
    });

    const foldersOf = (body: unknown) => documentLinksSchema.parse(body).links.map(({ folder_id }) => folder_id);
    const list = async () => foldersOf((await ada.get(`/documents/${documentId}/links`, 200)).body);
    const link = async (folder_id: string, fields = {}, member = ada) =>
      foldersOf((await member.post(`/documents/${documentId}/links`, { folder_id, ...fields }, 201)).body);
    const addressOf = (folderId: string) => `/documents/${documentId}/links/${folderId}`;

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

      documentId = await aDocumentIn(grace, await rootOf(grace, 'personal_root'));
      // Only an admin puts a document into a shared folder, and only its owner could show it to one.
      const keys = { orgId: ada.orgId, folderId: shared, documentId, createdBy: ada.userId };
      await stack.container.db('folderLinks').insert(keys);
      const acl = [`user:${grace.userId}`, `org:${ada.orgId}`];
      await stack.container.db('documents').where({ id: documentId }).update({ acl });
      await link(personal);
      const target = (await aFolder(grace, await rootOf(grace, 'personal_root'))).id;
      expect(await link(target, { promote: true }, grace)).have.members([shared, target]);
      expect(await list()).have.members([shared, personal]);
    });

    it('cannot be made to a hidden folder (404), nor for a document that is read-only (403)', async () => {
      const eve = await stack.signUp('Eve');
      for (const folder_id of [await rootOf(eve, 'org_root'), await rootOf(grace, 'personal_root')]) {
        const { body } = await ada.post(`/documents/${documentId}/links`, { folder_id }, 404);
        expect(body).include({ code: 'folder_not_found' });
      }
      await link(shared);
      await grace.post(`/documents/${documentId}/links`, { folder_id: await rootOf(grace, 'personal_root') }, 403);
    });

    it('can be removed by users who may write to the folder, whose readers then lose the document', async () => {
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

    it('cannot all be removed: 409 for the last link, also for two concurrent removals', async () => {
      expect((await ada.delete(addressOf(personal), 409)).body).include({ code: 'last_link' });
      await link(shared);
      const answers = await Promise.all([personal, shared].map((id) => ada.raw(addressOf(id), { method: 'DELETE' })));
      expect(answers.map(({ status }) => status).sort()).deep.equal([204, 409]);
      expect(await list()).length(1);
    });
  });
});
