import { expect } from 'chai';
import { aColleague, anIngestedDocument, anUpload, readDocument, rootOf } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { itHoldsTheLimit, post } from '#test/support/concurrent-requests.ts';
import { type Stack, stack, startStack } from '#test/support/stack.ts';

const file = { name: 'Übersicht.md', content: '# Overview\n\nThe quick brown fox.', type: 'text/markdown' };
const note = { name: 'Note', content: 'Received: by hand\n\nThe fox is quick.', source_format: 'text' };

describe('POST /documents', () => {
  let own: Stack;
  let ada: Member;
  before(async () => {
    own = await startStack({ TIER_LIMITS: '{"free":{"fileSizeBytes":1000}}' }, { workers: false });
  });
  after(() => own.close());
  beforeEach(async () => {
    ada = await own.signUp();
  });

  const upload = (fields: Record<string, string> = {}) => anUpload(ada, file, fields);
  const countObjects = async () => {
    const all = await own.container.blobs.list({ after: null, limit: 1_000 });
    return all.filter(({ key }) => key.startsWith(ada.orgId)).length;
  };

  it('queues the ingestion of a document that is named after its file, in the personal root folder', async () => {
    const document = await upload();
    expect(document).include({ name: 'Übersicht.md', source_format: 'markdown', has_stored_original: true });
    expect(document).include({ chunking_complete: false, embedding_complete: false, content: '' });
    expect(document.folder_ids).deep.equal([await rootOf(ada, 'personal_root')]);
    expect(document.parse_job_id).equal(`ingest-${document.id}-1.parse`);
    expect((await ada.get(`/jobs/ingest-${document.id}-1`, 200)).body).include({ kind: 'ingest' });
  });

  it('takes name, folder and chunking from the form, and only stores the file if ingest is false', async () => {
    const target_folder_id = await rootOf(ada, 'org_root');
    const document = await upload({ name: 'Plan', target_folder_id, target_tokens: '100', ingest: 'false' });
    expect(document).deep.include({ name: 'Plan', folder_ids: [target_folder_id], parse_job_id: null });
    const { config } = Object((await ada.get(`/rag/config/${document.id}`, 200)).body);
    expect(config.chunking).deep.equal({ method: 'token', target_tokens: 100, overlap_tokens: 15 });
    // The deployment has a reranker.
    expect(config.reranking).deep.equal({ enabled: true, reranker_type: 'cross_encoder', top_k: 8 });
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
      expect(await countObjects()).equal(1);
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
      expect(await countObjects()).equal(1);
    });

    it('answer 422 without a file, 400 to broken JSON, and 415 to another media type', async () => {
      await ada.postForm('/documents', { name: 'x' }, 422);
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
      expect(await countObjects()).equal(1);
    });
  });
});
