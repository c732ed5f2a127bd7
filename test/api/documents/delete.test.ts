import { expect } from 'chai';
import { deletionWorkflowId } from '#src/contracts/workflow-ids.ts';
import { documentListSchema, fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { folderTreeNodeSchema } from '#src/modules/folders/folders.schema.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { remainsOf, tracesOf } from '#test/support/remains.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { untilJob, untilRun } from '#test/support/until-job.ts';

describe('DELETE /documents/{document_id}', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
  });
  beforeEach(async () => {
    ada = await shared.signUp();
  });

  async function upload(content: string, fields: Record<string, string> = {}) {
    const { body } = await ada.upload('/documents', { name: 'fox.txt', content }, 201, { fields });
    return fullDocumentSchema.parse(body);
  }

  async function rootOf(member: Member, role: string): Promise<string> {
    const folders = folderTreeNodeSchema.array().parse((await member.get('/folders', 200)).body);
    return folders.find((folder) => folder.system_role === role)?.id ?? '';
  }

  async function ingested(content: string, fields: Record<string, string> = {}) {
    const document = await upload(content, fields);
    await untilRun(ada, document.embedding_job_id ?? '', 'succeeded');
    return document;
  }

  it('204: removes every row, point, blob, conversion and cached embedding, and keeps only the jobs', async () => {
    const { id, embedding_job_id } = await ingested('The quick brown fox jumps over the lazy dog.');
    const traces = await tracesOf(shared, id);
    expect(await remainsOf(shared, traces)).length.greaterThan(6);
    await ada.delete(`/documents/${id}`, 204);
    await untilJob(ada, deletionWorkflowId(id), 'succeeded');
    expect(await remainsOf(shared, traces)).deep.equal([]);
    expect((await ada.get(`/jobs?document_id=${id}`, 200)).body)
      .property('items')
      .length(2);
    await untilRun(ada, embedding_job_id ?? '', 'succeeded');
  });

  it('keeps nothing of a replaced original', async () => {
    const { id } = await ingested('The secret of the first original.');
    const { contents, orgId } = await tracesOf(shared, id);
    const { body } = await ada.upload(`/documents/${id}`, { name: 'fox.txt', content: 'What replaced it.' }, 200, {
      method: 'PATCH',
    });
    await untilRun(ada, fullDocumentSchema.parse(body).embedding_job_id ?? '', 'succeeded');
    const conversions = shared.container.db('conversions').where({ orgId }).whereIn('contentSha256', contents);
    expect(await conversions).deep.equal([]);
  });

  it('204: hides the document at once, before the workflow has removed its data', async () => {
    const own = ada;
    const { id } = await ingested('A vixen sleeps in her den all day long.');
    const [chunk] = await shared.container.db('chunks').where({ documentId: id });
    await own.delete(`/documents/${id}`, 204);
    for (const path of ['', '/file', '/chunks', '/chunking-status', '/embedding-status']) {
      await own.get(`/documents/${id}${path}`, 404);
    }
    await own.get(`/documents/chunks/${chunk.id}`, 404);
    expect(documentListSchema.parse((await own.get('/documents', 200)).body)).deep.include({ items: [], total: 0 });
    const root = await rootOf(own, 'personal_root');
    expect((await own.get(`/folders/${root}`, 200)).body)
      .property('documents')
      .deep.equal([]);
  });

  it('204: keeps content that another document shares', async () => {
    const content = 'Foxes of two documents are the same foxes.';
    const [first, second] = [await ingested(content), await ingested(content)];
    await ada.delete(`/documents/${first.id}`, 204);
    await untilJob(ada, deletionWorkflowId(first.id), 'succeeded');
    const kept = await tracesOf(shared, second.id);
    expect(await remainsOf(shared, kept)).include.members(['conversions', 'embeddings', 'chunkVectors']);
    expect(fullDocumentSchema.parse((await ada.get(`/documents/${second.id}`, 200)).body).content).equal(content);
  });

  it('204: lets an org admin delete a document that is shared with the organization', async () => {
    const grace = await aColleague(shared, ada);
    const { id } = await upload('shared', { target_folder_id: await rootOf(ada, 'org_root'), ingest: 'false' });
    await shared.container.db('documents').where({ id }).update({ createdBy: grace.userId });
    await ada.delete(`/documents/${id}`, 204);
  });

  it('401: rejects a request without a token', async () => {
    await shared.anonymous.delete(`/documents/${crypto.randomUUID()}`, 401);
  });

  it('403: rejects a caller with read access only', async () => {
    const grace = await aColleague(shared, ada);
    const { id } = await upload('shared', { target_folder_id: await rootOf(ada, 'org_root'), ingest: 'false' });
    expect((await grace.delete(`/documents/${id}`, 403)).body).include({ code: 'forbidden' });
    await ada.get(`/documents/${id}`, 200);
  });

  it('404: rejects a deleted, an unreadable and an unknown document', async () => {
    const { id } = await upload('gone', { ingest: 'false' });
    const stranger = await shared.signUp('Eve');
    expect((await stranger.delete(`/documents/${id}`, 404)).body).include({ code: 'document_not_found' });
    await ada.delete(`/documents/${id}`, 204);
    for (const path of [id, crypto.randomUUID(), '7']) await ada.delete(`/documents/${path}`, 404);
  });
});
