import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { folderTreeNodeSchema } from '#src/modules/folders/folders.schema.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

describe('PATCH /documents/{document_id}', () => {
  let stack: Stack;
  let ada: Member;
  before(async () => {
    const limits = { documents: 3, fileSizeBytes: 1_000, storageBytes: 1_500 };
    // Without workers, so that only requests change anything.
    stack = await startStack({ TIER_LIMITS: JSON.stringify({ free: limits }) }, { workers: false });
  });
  after(() => stack.close());
  beforeEach(async () => {
    ada = await stack.signUp();
  });

  const file = { name: 'fox.md', content: '# Foxes\n\nThe quick brown fox.', type: 'text/markdown' };
  const upload = async (fields: Record<string, string> = { ingest: 'false' }, sent = file) =>
    fullDocumentSchema.parse((await ada.upload('/documents', sent, 201, { fields })).body);
  const change = async (id: string, fields: object) =>
    fullDocumentSchema.parse((await ada.patch(`/documents/${id}`, fields, 200)).body);
  const replace = async (id: string, content: string, fields: Record<string, string> = {}) => {
    const form = { method: 'PATCH', fields } as const;
    return fullDocumentSchema.parse(
      (await ada.upload(`/documents/${id}`, { name: 'wolf.txt', content }, 200, form)).body,
    );
  };
  const rowOf = (id: string) => stack.container.db('documents').where({ id }).first();
  const isStored = (blobKey: string) =>
    access(join(stack.config.dataDir, 'blobs/objects', blobKey)).then(
      () => true,
      () => false,
    );
  const rootOf = async (member: Member, role: string) =>
    folderTreeNodeSchema
      .array()
      .parse((await member.get('/folders', 200)).body)
      .find((folder) => folder.system_role === role)?.id ?? '';

  /** Simulates a finished ingestion of the newest generation. */
  async function activate(documentId: string): Promise<void> {
    const { db } = stack.container;
    await db('documents')
      .where({ id: documentId })
      .update({ activeGeneration: db.ref('generation') });
    await db('jobs').where({ documentId }).update({ status: 'succeeded', finishedAt: db.fn.now() });
  }

  it('200: renames the document', async () => {
    const { id } = await upload();
    expect(await change(id, { name: 'Plan' })).include({ id, name: 'Plan', parse_job_id: null });
  });

  it('200: moves the document and gives the readers of the folder access to it and its jobs', async () => {
    const grace = await aColleague(stack, ada);
    const { id, parse_job_id } = await upload({});
    await grace.get(`/documents/${id}`, 404);
    const folderId = await rootOf(ada, 'org_root');
    expect((await change(id, { target_folder_id: folderId })).folder_ids).deep.equal([folderId]);
    await grace.get(`/documents/${id}`, 200);
    await grace.get(`/jobs/${parse_job_id}`, 200);
    await change(id, { target_folder_id: await rootOf(ada, 'personal_root') });
    await grace.get(`/documents/${id}`, 404);
    await grace.get(`/jobs/${parse_job_id}`, 404);
  });

  it('200: marks chunks and vectors as stale after a change of chunking until the next ingestion', async () => {
    const { id } = await upload({});
    await activate(id);
    expect(await change(id, { name: 'x' })).include({ chunking_stale: false, embedding_stale: false });
    expect(await change(id, { target_tokens: 100 })).include({ chunking_stale: true, embedding_stale: true });
    expect((await rowOf(id)).ragConfig.chunking).deep.equal({ method: 'token', targetTokens: 100, overlapTokens: 15 });
    expect((await rowOf(id)).generation).equal(1);
    // The document again equals the source of its generation.
    expect(await change(id, { target_tokens: 400 })).include({ chunking_stale: false, embedding_stale: false });
  });

  it('200: ingests again on request, and only if that changes anything', async () => {
    const { id } = await upload({});
    await activate(id);
    expect((await change(id, { ingest: true })).parse_job_id).equal(`ingest-${id}-1.parse`);
    const changed = await change(id, { chunking_method: 'semantic', ingest: true });
    expect(changed.parse_job_id).equal(`ingest-${id}-2.parse`);
  });

  it('200: replaces the original, ingests it, and removes the old one once it is unused', async () => {
    const { id, folder_ids } = await upload();
    const { blobKey } = await rowOf(id);
    const replaced = await replace(id, 'The grey wolf.');
    expect(replaced).include({ id, name: 'fox.md', source_format: 'text', parse_job_id: `ingest-${id}-1.parse` });
    expect(replaced.folder_ids).deep.equal(folder_ids);
    expect(await (await ada.raw(`/documents/${id}/file`)).text()).equal('The grey wolf.');
    expect(await isStored(blobKey)).equal(false);
  });

  it('200: keeps the old original for a queued ingestion that has not read it yet', async () => {
    const { id } = await upload({});
    const { blobKey } = await rowOf(id);
    const replaced = await replace(id, 'The grey wolf.', { ingest: 'false', name: 'Wolf' });
    expect(replaced).include({ name: 'Wolf', parse_job_id: `ingest-${id}-1.parse` });
    expect(await isStored(blobKey)).equal(true);
  });

  it('200: accepts a form without a file', async () => {
    const { id } = await upload();
    const form = new FormData();
    form.set('name', 'Plan');
    const response = await ada.raw(`/documents/${id}`, { method: 'PATCH', body: form });
    expect(response.status).equal(200);
    expect(fullDocumentSchema.parse(await response.json()).name).equal('Plan');
  });

  it('200: opens a new generation for a newer original', async () => {
    const { id } = await upload({});
    expect((await replace(id, 'The grey wolf.')).parse_job_id).equal(`ingest-${id}-2.parse`);
    const made = await stack.container.db('documentGenerations').where({ documentId: id }).orderBy('generation');
    expect(made.map((generation) => generation.fileName)).deep.equal(['fox.md', 'wolf.txt']);
  });

  it('400: rejects malformed JSON', async () => {
    const { id } = await upload();
    const headers = { 'content-type': 'application/json' };
    expect((await ada.raw(`/documents/${id}`, { method: 'PATCH', headers, body: '{' })).status).equal(400);
  });

  it('401: rejects a request without a token', async () => {
    await stack.anonymous.patch(`/documents/${crypto.randomUUID()}`, { name: 'x' }, 401);
  });

  it('403: rejects a caller with read access only to the document or the folder', async () => {
    const grace = await aColleague(stack, ada);
    const [orgRoot, ownRoot] = [await rootOf(ada, 'org_root'), await rootOf(grace, 'personal_root')];
    const { id } = await upload({ ingest: 'false', target_folder_id: orgRoot });
    expect((await grace.patch(`/documents/${id}`, { name: 'x' }, 403)).body).include({ code: 'forbidden' });
    const form = { fields: { ingest: 'false', target_folder_id: ownRoot } };
    const own = fullDocumentSchema.parse((await grace.upload('/documents', file, 201, form)).body);
    await grace.patch(`/documents/${own.id}`, { target_folder_id: orgRoot }, 403);
  });

  it('404: rejects a document or a folder of another user', async () => {
    const eve = await stack.signUp('Eve');
    const { id } = await upload();
    expect((await eve.patch(`/documents/${id}`, { name: 'x' }, 404)).body).include({ code: 'document_not_found' });
    const folder = { target_folder_id: await rootOf(eve, 'personal_root') };
    expect((await ada.patch(`/documents/${id}`, folder, 404)).body).include({ code: 'folder_not_found' });
    expect((await rowOf(id)).name).equal('fox.md');
  });

  it('409: rejects a replacement above the quota and keeps nothing of it', async () => {
    await upload({ ingest: 'false' }, { ...file, content: 'x'.repeat(900) });
    const { id } = await upload();
    const { blobKey } = await rowOf(id);
    const large = { name: 'large.txt', content: 'x'.repeat(700) };
    const { body } = await ada.upload(`/documents/${id}`, large, 409, { method: 'PATCH' });
    expect(body).include({ code: 'storage_quota_exceeded' });
    expect(await rowOf(id)).include({ blobKey });
    // The replaced original frees its size for the new one.
    await replace(id, 'x'.repeat(550));
    await replace(id, 'y'.repeat(600));
  });

  it('412: rejects a change of a document that was modified since it was read', async () => {
    const { id } = await upload();
    const headers = { 'If-Match': (await ada.get(`/documents/${id}`, 200)).headers.get('etag') ?? '' };
    await ada.patch(`/documents/${id}`, { name: 'first' }, 200, headers);
    await ada.patch(`/documents/${id}`, { name: 'second' }, 412, headers);
    expect((await rowOf(id)).name).equal('first');
  });

  it('413: rejects a file above the size limit of the tier', async () => {
    const { id } = await upload();
    await ada.upload(`/documents/${id}`, { name: 'large.txt', content: 'x'.repeat(1_001) }, 413, { method: 'PATCH' });
  });

  it('415: rejects a body that is neither a form nor JSON', async () => {
    const { id } = await upload();
    const headers = { 'content-type': 'text/plain' };
    expect((await ada.raw(`/documents/${id}`, { method: 'PATCH', headers, body: 'name' })).status).equal(415);
  });

  it('422: rejects invalid and unknown fields, and an overlap that reaches the target', async () => {
    const { id } = await upload();
    for (const fields of [
      { name: '' },
      { target_tokens: 0 },
      { overlap_tokens: 400 },
      { ingest: 'perhaps' },
      { content: 'x' },
    ]) {
      const { body } = await ada.patch(`/documents/${id}`, fields, 422);
      expect(body).nested.include({ 'errors[0].path': Object.keys(fields)[0] });
    }
  });
});
