import { expect } from 'chai';
import { chunkListSchema } from '#src/modules/documents/chunks.schema.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { folderTreeNodeSchema } from '#src/modules/folders/folders.schema.ts';
import { chunkPreviewsSchema } from '#src/modules/rag/rag.schema.ts';
import { aColleague } from '#test/support/builders.ts';
import type { ApiClient, Member } from '#test/support/client.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { untilRun } from '#test/support/until-job.ts';

const sections = ['Leave', 'Travel', 'Loans'];
const content = sections
  .map((name) => `# ${name}\n\n${Array.from({ length: 12 }, (_, n) => `Rule ${n} of ${name} says so.`).join(' ')}`)
  .join('\n\n');

describe('POST /rag/documents/{document_id}/chunks/preview', () => {
  let shared: ScriptedStack;
  let ada: Member;
  let id: string;
  before(async () => {
    shared = await scriptedStack();
    ada = await shared.signUp();
    id = await upload(content);
  });
  afterEach(() => shared.model.failEmbeddings(false));

  const pathOf = (documentId: string) => `/rag/documents/${documentId}/chunks/preview`;
  const preview = async (fields: Record<string, string>, as: ApiClient = ada) =>
    chunkPreviewsSchema.parse((await as.postForm(pathOf(id), fields, 200)).body);

  async function upload(text: string, fields: Record<string, string> = {}): Promise<string> {
    const form = { fields: { target_tokens: '60', ...fields } };
    const { body } = await ada.upload('/documents', { name: 'rules.md', content: text }, 201, form);
    const document = fullDocumentSchema.parse(body);
    if (document.embedding_job_id !== null) await untilRun(ada, document.embedding_job_id, 'succeeded');
    return document.id;
  }
  async function chunks() {
    const { items } = chunkListSchema.parse((await ada.get(`/documents/${id}/chunks`, 200)).body);
    return items.map(({ chunk_index: index, content, token_count, contextual_text, chunk_kind }) => {
      return { index, content, token_count, contextual_text, chunk_kind };
    });
  }

  it('200: chunks by tokens with the settings of the document by default', async () => {
    const { chunks: previewed, total } = await preview({});
    expect(previewed).deep.equal(await chunks());
    expect(total).equal(previewed.length).and.above(2);
    expect(previewed[0]?.contextual_text).equal('rules.md › Leave (page 1)');
    expect((await ada.post(pathOf(id), {}, 200)).body).deep.equal({ chunks: previewed, total });
  });

  for (const options of [
    { chunking_method: 'token', target_tokens: '120', overlap_tokens: '30' },
    { chunking_method: 'semantic', target_tokens: '80' },
  ]) {
    it(`200: equals the next ingestion (${options.chunking_method}), and stores nothing`, async () => {
      const { db } = shared.container;
      const countKept = async () => Number((await db('embeddings').where({ orgId: ada.orgId }).count())[0]?.count);
      const [before, kept] = [await chunks(), await countKept()];
      const previewed = await preview(options);
      expect(await chunks()).deep.equal(before);
      expect(await countKept()).equal(kept);

      const { body } = await ada.patch(`/documents/${id}`, { ...options, ingest: true }, 200);
      await untilRun(ada, fullDocumentSchema.parse(body).embedding_job_id ?? '', 'succeeded');
      expect(previewed.chunks).deep.equal(await chunks());
    });
  }

  it('200: allows a user who may only read the document', async () => {
    const grace = await aColleague(shared, ada);
    const folders = folderTreeNodeSchema.array().parse((await ada.get('/folders', 200)).body);
    const orgRoot = folders.find((folder) => folder.system_role === 'org_root')?.id ?? '';
    await ada.patch(`/documents/${id}`, { target_folder_id: orgRoot }, 200);
    expect(await preview({}, grace)).deep.equal(await preview({}));
  });

  it('401: without a token', async () => {
    await shared.anonymous.postForm(pathOf(id), {}, 401);
  });

  it('404: rejects an unknown or unreadable document', async () => {
    const eve = await shared.signUp('Eve');
    expect((await eve.postForm(pathOf(id), {}, 404)).body).include({ code: 'document_not_found' });
    await ada.postForm(pathOf(crypto.randomUUID()), {}, 404);
    await ada.postForm(pathOf('7'), {}, 404);
  });

  it('409: rejects a document whose current original is not converted yet', async () => {
    const stored = await upload('Never ingested.', { ingest: 'false' });
    expect((await ada.postForm(pathOf(stored), {}, 409)).body).include({ code: 'document_not_converted' });
    const replaced = await upload('Old words.');
    const file = { name: 'rules.md', content: 'New words.' };
    await ada.upload(`/documents/${replaced}`, file, 200, { method: 'PATCH', fields: { ingest: 'false' } });
    await ada.postForm(pathOf(replaced), {}, 409);
  });

  it('422: names what is out of range, unknown or inconsistent, and takes no file', async () => {
    const wrong: [string, Record<string, string>][] = [
      ['chunking_method', { chunking_method: 'page' }],
      ['target_tokens', { target_tokens: '0' }],
      ['target_tokens', { target_tokens: 'many' }],
      ['overlap_tokens', { overlap_tokens: '-1' }],
      ['overlap_tokens', { target_tokens: '20', overlap_tokens: '20' }],
      ['unit', { unit: 'word' }],
    ];
    for (const [place, fields] of wrong) {
      expect((await ada.postForm(pathOf(id), fields, 422)).body, place).nested.include({ 'errors[0].path': place });
    }
    const withFile = await ada.upload(pathOf(id), { name: 'fox.txt', content: 'fox' }, 422);
    expect(withFile.body).nested.include({ 'errors[0].path': 'file' });
  });

  it('422: rejects too many sentences for semantic chunking', async () => {
    id = await upload('So it goes on. '.repeat(1_001), { target_tokens: '400' });
    const refused = await ada.postForm(pathOf(id), { chunking_method: 'semantic' }, 422);
    expect(refused.body).include({ code: 'preview_too_large' });
    await preview({});
  });

  it('503: reports a failed embedding service for semantic chunking only', async () => {
    id = await upload(content);
    shared.model.failEmbeddings(true);
    await preview({});
    const failed = await ada.postForm(pathOf(id), { chunking_method: 'semantic' }, 503);
    expect(failed.body).include({ code: 'model_unavailable' });
  });
});
