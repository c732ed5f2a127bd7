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
  treesOf,
} from '#test/support/builders.ts';
import { type Member, sendJson, statusesOf } from '#test/support/client.ts';
import { itHoldsTheLimit, post } from '#test/support/concurrent-requests.ts';
import { type Stack, stack, startStack } from '#test/support/stack.ts';

const file = { name: 'Übersicht.md', content: '# Overview\n\nThe quick brown fox.', type: 'text/markdown' };
const note = { name: 'Note', content: 'Received: by hand\n\nThe fox is quick.', source_format: 'text' };

describe('documents:', () => {
  let own: Stack;
  let ada: Member;
  before(async () => {
    // Without workers, so that ingestions stay queued.
    own = await startStack({ TIER_LIMITS: '{"free":{"fileSizeBytes":1000}}' }, { workers: false });
  });
  after(() => own.close());
  beforeEach(async () => {
    ada = await own.signUp();
  });

  async function countOriginals(): Promise<number> {
    const stored = await own.container.blobs.list({ after: null, limit: 1_000 });
    return stored.filter(({ key }) => key.startsWith(ada.orgId)).length;
  }

  describe('POST /documents', () => {
    const upload = (fields: Record<string, string> = {}) => anUpload(ada, file, fields);

    it('queues the ingestion of a document that is named after its file, in the personal root folder', async () => {
      const document = await upload();
      expect(document).include({ name: 'Übersicht.md', source_format: 'markdown', has_stored_original: true });
      expect(document).include({ chunking_complete: false, embedding_complete: false, content: '' });
      expect(document.folder_ids).deep.equal([await rootOf(ada, 'personal_root')]);
      expect(document.parse_job_id).equal(`ingest-${document.id}-1.parse`);
      expect((await ada.get(`/jobs/ingest-${document.id}-1`, 200)).body).include({ kind: 'ingest' });
    });

    it('answers with the queued document when the time of Prefer: wait ends first', async () => {
      const { body } = await ada.upload('/documents', file, 201, { headers: { prefer: 'wait=1' } });
      expect(body).include({ name: 'Übersicht.md', status: 'queued' });
    });

    it('takes name, folder and chunking from the form, and only stores the file if ingest is false', async () => {
      const target_folder_id = await rootOf(ada, 'org_root');
      const document = await upload({ name: 'Plan', target_folder_id, target_tokens: '100', ingest: 'false' });
      expect(document).deep.include({ name: 'Plan', folder_ids: [target_folder_id], parse_job_id: null });
      const { config } = Object((await ada.get(`/rag/config/${document.id}`, 200)).body);
      expect(config.chunking).deep.equal({ method: 'token', target_tokens: 100, overlap_tokens: 15 });
      // The packaged reranker is off by default.
      expect(config.reranking).deep.equal({ enabled: false, reranker_type: 'cross_encoder', top_k: 8 });
      await (await aColleague(own, ada)).get(`/documents/${document.id}`, 200);
    });

    it('rejects a folder that is read-only (403) or hidden (404) for the caller, and keeps no file', async () => {
      const grace = await aColleague(own, ada);
      const [orgRoot, hidden] = [await rootOf(ada, 'org_root'), await rootOf(grace, 'personal_root')];
      for (const [member, target_folder_id, status, code] of [
        [grace, orgRoot, 403, 'forbidden'],
        [ada, hidden, 404, 'folder_not_found'],
      ] as const) {
        const { id } = await anUpload(member, file, { ingest: 'false' });
        const another = { ...file, content: 'Another fox.' };
        const { body } = await member.upload('/documents', another, status, { fields: { target_folder_id } });
        expect(body).include({ code });
        await member.post('/documents/paste', { ...note, target_folder_id }, status);
        await member.patch(`/documents/${id}`, { target_folder_id }, status);
        expect(await countOriginals()).equal(1);
      }
    });

    itHoldsTheLimit('document_limit_reached', async (member) => () => post(member, '/documents/paste', note));

    it('reads a pasted text in the format that the request states', async () => {
      const member = await (await stack()).signUp();
      const id = await anIngestedDocument(member, 'Note', '<html><p>Not a page.</p>', { source_format: 'text' });
      const expected = { source_format: 'text', content: '<html><p>Not a page.</p>' };
      expect(await readDocument(member, id)).include(expected);
    });

    describe('and other routes with forms', () => {
      let id: string;
      beforeEach(async () => {
        id = (await upload({ ingest: 'false' })).id;
      });

      type Wrong = [path: string, field: string, fields: Record<string, string>];
      const [creation, change] = ['/documents', '/documents/:id'] as const;
      const preview = '/rag/documents/:id/chunks/preview';
      const wrong: Wrong[] = [
        ...[creation, change].flatMap((path): Wrong[] => [
          [path, 'name', { name: 'two\nlines' }],
          [path, 'ingest', { ingest: 'perhaps' }],
          [path, 'target_folder_id', { target_folder_id: 'root' }],
          [path, 'overlap_tokens', { target_tokens: '20', overlap_tokens: '20' }],
        ]),
        ...[creation, change, preview].flatMap((path): Wrong[] => [
          [path, 'colour', { colour: 'red' }],
          [path, 'chunking_method', { chunking_method: 'page' }],
          [path, 'target_tokens', { target_tokens: '0' }],
          [path, 'target_tokens', { target_tokens: 'many' }],
          [path, 'overlap_tokens', { overlap_tokens: '-1' }],
        ]),
      ];

      it('answer 422 and name a form field whose value is wrong or that is unknown', async () => {
        for (const [path, field, fields] of wrong) {
          const address = path.replace(':id', id);
          const sent = { fields, method: path === change ? 'PATCH' : 'POST' } as const;
          const { body } =
            path === preview ? await ada.postForm(address, fields, 422) : await ada.upload(address, file, 422, sent);
          expect(body, `${path} ${JSON.stringify(fields)}`).nested.include({ 'errors[0].path': field });
        }
        const { body } = await ada.upload(preview.replace(':id', id), file, 422);
        expect(body).nested.include({ 'errors[0].path': 'file' });
        expect(await countOriginals()).equal(1);
      });

      it('answer 400 to broken JSON, and 415 to another media type', async () => {
        await ada.post('/documents', { name: 'x' }, 415);
        const patch = async (type: string, body: string) =>
          (await ada.raw(`/documents/${id}`, { method: 'PATCH', headers: { 'content-type': type }, body })).status;
        expect(await patch('application/json', '{')).equal(400);
        expect(await patch('text/plain', 'name')).equal(415);
      });

      it('answer 413 to a file above the size limit of the tier, and store nothing of it', async () => {
        const large = { ...file, content: 'x'.repeat(1_001) };
        expect((await ada.upload('/documents', large, 413)).body).include({ code: 'payload_too_large' });
        await ada.upload(`/documents/${id}`, large, 413, { method: 'PATCH' });
        expect(await countOriginals()).equal(1);
      });
    });
  });

  describe('PATCH /documents/{document_id}', () => {
    const change = async (id: string, fields: object) =>
      fullDocumentSchema.parse((await ada.patch(`/documents/${id}`, fields, 200)).body);
    const replace = (id: string, content: string, fields: Record<string, string> = {}) =>
      replaceOriginal(ada, id, { name: 'wolf.txt', content }, fields);

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

    it('marks chunks as stale after a change of chunking, and with `ingest` replaces stale chunks', async () => {
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
      expect(replaced).deep.include({ id, name: 'Übersicht.md', folder_ids, source_format: 'text', parse_job_id });
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

    it('let the readers of a linked folder read the document, but show them no other folder of the document', async () => {
      const before = await readDocument(ada, documentId);
      const { id } = await aFolder(ada, shared, 'Loans');
      for (const _ of ['first', 'again']) expect(await link(id)).deep.equal([personal, id]);
      const seen = await readDocument(grace, documentId);
      expect(seen).deep.include({ updated_at: before.updated_at, updated_by: ada.userId, folder_ids: [id] });
      const { body } = await grace.get(`/documents/${documentId}/links`, 200);
      expect(body).deep.equal({ document_id: documentId, links: [{ folder_id: id, folder_name: 'Loans' }] });
    });

    it('are replaced by a new link that sets `promote`, unless an admin has to remove them or they are hidden', async () => {
      const folder = await aFolder(ada, personal);
      await link(shared);
      expect(await link(folder.id, { promote: true })).deep.equal([folder.id]);
      await grace.get(`/documents/${documentId}`, 404);

      await setTeamAdmin(await aTeam(ada, [grace]), true);
      const administered = await rootOf(grace, 'team_root');
      await aTeam(ada, [grace]);
      const roots = (await treesOf(grace)).filter(({ system_role }) => system_role === 'team_root');
      for (const { id } of roots) await link(id);
      const target = (await aFolder(grace, administered)).id;
      const others = roots.map(({ id }) => id).filter((id) => id !== administered);
      expect(await link(target, { promote: true }, grace)).have.members([...others, target]);
      expect(await list()).have.members([folder.id, ...others, target]);

      documentId = await aDocumentIn(grace, others[0] ?? '');
      const hers = await rootOf(grace, 'personal_root');
      expect(await link(hers, { promote: true }, grace)).deep.equal([hers]);
    });

    it('cannot be made to a hidden folder (404), nor for a document that is read-only (403)', async () => {
      const hidden = await rootOf(grace, 'personal_root');
      const { body } = await ada.post(`/documents/${documentId}/links`, { folder_id: hidden }, 404);
      expect(body).include({ code: 'folder_not_found' });
      await link(shared);
      await grace.post(`/documents/${documentId}/links`, { folder_id: hidden }, 403);
    });

    it('can be removed by the admins of the folder; the readers of the folder then lose the document', async () => {
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

    it('cannot all be removed: removing the last one fails (409), also if two are removed concurrently', async () => {
      expect((await ada.delete(addressOf(personal), 409)).body).include({ code: 'last_link' });
      await link(shared);
      const removals = [personal, shared].map((id) => sendJson(ada, 'DELETE', addressOf(id)));
      expect(await statusesOf(removals)).deep.equal([204, 409]);
      expect(await list()).length(1);
    });
  });
});
