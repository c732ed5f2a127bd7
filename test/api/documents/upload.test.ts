import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { folderTreeNodeSchema } from '#src/modules/folders/folders.schema.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

const file = { name: 'Übersicht.md', content: '# Overview\n\nThe quick brown fox.', type: 'text/markdown' };

describe('POST /documents', () => {
  let stack: Stack;
  let ada: Member;
  before(async () => {
    const limits = { documents: 3, fileSizeBytes: 1_000, storageBytes: 2_500 };
    stack = await startStack({ TIER_LIMITS: JSON.stringify({ free: limits }) }, { workers: false });
  });
  after(() => stack.close());
  beforeEach(async () => {
    ada = await stack.signUp();
  });

  const upload = async (fields: Record<string, string> = {}, sent = file) =>
    fullDocumentSchema.parse((await ada.upload('/documents', sent, 201, { fields })).body);
  const storedFiles = () =>
    readdir(join(stack.config.dataDir, 'blobs', 'objects', ada.orgId)).catch((): string[] => []);
  const rootOf = async (member: Member, role: string) => {
    const { body } = await member.get('/folders', 200);
    return (
      folderTreeNodeSchema
        .array()
        .parse(body)
        .find((folder) => folder.system_role === role)?.id ?? ''
    );
  };

  it('201: queues the ingestion of a document named after its file, in the personal root', async () => {
    const document = await upload();
    expect(document).to.include({ name: 'Übersicht.md', source_format: 'markdown', has_stored_original: true });
    expect(document).to.include({ chunking_complete: false, embedding_complete: false, content: '' });
    expect(document.folder_ids).to.deep.equal([await rootOf(ada, 'personal_root')]);
    expect(document.parse_job_id).to.equal(`ingest-${document.id}-1.parse`);
    const job = await stack.container.db('jobs').where({ documentId: document.id }).first();
    expect(job).to.include({ kind: 'ingest', orgId: ada.orgId, createdBy: ada.userId });
  });

  it('201: takes name, folder and chunking from the form', async () => {
    const folderId = await rootOf(ada, 'org_root');
    const document = await upload({ name: 'Plan', target_folder_id: folderId, target_tokens: '100' });
    expect(document.name).to.equal('Plan');
    expect(document.folder_ids).to.deep.equal([folderId]);
    const row = await stack.container.db('documents').where({ id: document.id }).first();
    expect(row.ragConfig.chunking).to.deep.equal({ method: 'token', targetTokens: 100, overlapTokens: 15 });
    expect(row.acl).to.have.members([`user:${ada.userId}`, `org:${ada.orgId}`]);
  });

  it('201: only stores the file when ingest is false', async () => {
    const document = await upload({ ingest: 'false' });
    expect(document.parse_job_id).to.equal(null);
    expect(await stack.container.db('jobs').where({ documentId: document.id })).to.have.length(0);
  });

  it('201: answers a repeated Idempotency-Key with the same document and keeps one file', async () => {
    const headers = { 'Idempotency-Key': 'first' };
    const [one, two] = [
      await ada.upload('/documents', file, 201, { headers }),
      await ada.upload('/documents', file, 201, { headers }),
    ];
    expect(two.body).to.deep.equal(one.body);
    expect(await storedFiles()).to.have.length(1);
  });

  it('401: rejects a request without a token', async () => {
    await stack.anonymous.upload('/documents', file, 401);
  });

  it('403: rejects a folder that is read-only for the caller', async () => {
    const grace = await aColleague(stack, ada);
    const fields = { target_folder_id: await rootOf(ada, 'org_root') };
    const { body } = await grace.upload('/documents', file, 403, { fields });
    expect(body).to.include({ code: 'forbidden' });
  });

  it('404: rejects a folder of another user and keeps no file', async () => {
    const fields = { target_folder_id: await rootOf(await stack.signUp('Grace'), 'personal_root') };
    const { body } = await ada.upload('/documents', file, 404, { fields });
    expect(body).to.include({ code: 'folder_not_found' });
    expect(await storedFiles()).to.deep.equal([]);
  });

  it('409: rejects documents above the limit, also when uploads are concurrent', async () => {
    const tries = await Promise.all(
      Array.from({ length: 6 }, async (_, index) => {
        const form = new FormData();
        form.set('file', new Blob([`content ${index}`]), 'x.txt');
        return (await ada.raw('/documents', { method: 'POST', body: form })).status;
      }),
    );
    expect(tries.sort()).to.deep.equal([201, 201, 201, 409, 409, 409]);
    expect((await ada.upload('/documents', file, 409)).body).to.include({ code: 'document_limit_reached' });
    expect(await storedFiles()).to.have.length(3);
  });

  it('201: accepts a document in place of a deleted one before the deletion workflow is done', async () => {
    const large = { name: 'large.txt', content: 'x'.repeat(1_000) };
    await upload({}, { ...file, ...large });
    const { id } = await upload({}, { ...file, ...large });
    await ada.upload('/documents', large, 409);
    await ada.delete(`/documents/${id}`, 204);
    await ada.upload('/documents', large, 201);
  });

  it('409: rejects a file above the storage quota', async () => {
    const large = { name: 'large.txt', content: 'x'.repeat(1_000) };
    await ada.upload('/documents', large, 201);
    await ada.upload('/documents', large, 201);
    expect((await ada.upload('/documents', large, 409)).body).to.include({ code: 'storage_quota_exceeded' });
  });

  it('413: rejects a file above the size limit of the tier and keeps nothing of it', async () => {
    const { body } = await ada.upload('/documents', { name: 'large.txt', content: 'x'.repeat(1_001) }, 413);
    expect(body).to.include({ code: 'payload_too_large' });
    expect(await storedFiles()).to.deep.equal([]);
  });

  it('415: rejects a body that is not a form', async () => {
    await ada.post('/documents', { name: 'x' }, 415);
  });

  it('422: rejects a missing file, and invalid and unknown fields', async () => {
    const form = new FormData();
    form.set('name', 'x');
    expect((await ada.raw('/documents', { method: 'POST', body: form })).status).to.equal(422);
    for (const fields of [
      { target_tokens: '0' },
      { target_folder_id: 'root' },
      { ingest: 'perhaps' },
      { colour: 'red' },
    ]) {
      await ada.upload('/documents', file, 422, { fields });
    }
    expect(await storedFiles()).to.deep.equal([]);
  });

  it('422: rejects an overlap that reaches the target', async () => {
    const fields = { target_tokens: '50', overlap_tokens: '50' };
    const { body } = await ada.upload('/documents', file, 422, { fields });
    expect(body).to.nested.include({ 'errors[0].path': 'overlap_tokens' });
  });
});
