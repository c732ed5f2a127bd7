import { expect } from 'chai';
import { deletionWorkflowId } from '#src/contracts/workflow-ids.ts';
import { chunkListSchema } from '#src/modules/documents/chunks.schema.ts';
import { documentListSchema } from '#src/modules/documents/documents.schema.ts';
import {
  aColleague,
  aDocumentIn,
  anIngestedDocument,
  anUpload,
  readDocument,
  replaceOriginal,
  rootOf,
} from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { remainsOf, tracesOf } from '#test/support/stores.ts';
import { untilJob, untilRun } from '#test/support/until-job.ts';

const paragraphs = Array.from({ length: 30 }, (_, n) => `The fox of paragraph ${n} jumps over ${n + 1} lazy dogs.`);
const content = `# Foxes\n\n${paragraphs.join('\n\n')}`;

describe('documents:', () => {
  let shared: Stack;
  before(async () => {
    shared = await stack();
  });

  it('GET /documents/{document_id} shows the content, its chunks with their positions, and their counts', async () => {
    const ada = await shared.signUp();
    const { id } = await anUpload(ada, { name: 'foxes.md', content }, { target_tokens: '100' });
    await untilRun(ada, `ingest-${id}-1`, 'succeeded');
    const path = `/documents/${id}`;
    const document = await readDocument(ada, id);
    expect(document).include({ content, char_count: content.length, page_count: 1 });
    expect(document).include({ content_preview: content.slice(0, 280), embedding_job_id: `ingest-${id}-1.embed` });
    expect(document).include({ chunking_complete: true, embedding_complete: true });

    const { items } = chunkListSchema.parse((await ada.get(`${path}/chunks`, 200)).body);
    const { length } = items;
    expect(length).greaterThan(3);
    for (const [index, chunk] of items.entries()) {
      expect(chunk).include({ chunk_index: index, embedded: true });
      expect(chunk.token_count).within(1, 100);
      const inContext = Object((await ada.get(`/documents/chunks/${chunk.id}`, 200)).body);
      expect(inContext).include({ document_id: id, document_name: 'foxes.md', visibility: 'personal', page_number: 1 });
      expect(content.startsWith(inContext.content, inContext.content_offset)).equal(true);
    }
    const chunking = await ada.get(`${path}/chunking-status`, 200);
    expect(chunking.body).include({ chunking_complete: true, chunk_count: length });
    const embedding = await ada.get(`${path}/embedding-status`, 200);
    expect(embedding.body).include({ chunks_total: length, chunks_embedded: length });
  });

  it('POST /documents and /documents/paste answer with Prefer: wait when the document can be found, or has failed', async () => {
    const ada = await shared.signUp();
    const headers = { prefer: 'wait=60' };
    const upload = async (bytes: string | Uint8Array<ArrayBuffer>) =>
      (await ada.upload('/documents', { name: 'wombat', content: bytes }, 201, { headers })).body;
    expect(await upload('The wombat sleeps.')).include({ status: 'succeeded', content: 'The wombat sleeps.' });
    expect(Object((await ada.get('/documents/search?q=sleeps', 200)).body).total).equal(1);
    const failed = await upload(new Uint8Array([0, 1, 2, 3]));
    expect(failed).nested.include({ status: 'failed', 'last_error.code': 'unsupported_format' });
    const text = { name: 'Dog', content: 'The dog is lazy.', source_format: 'text' };
    const pasted = await ada.post('/documents/paste', text, 201, headers);
    expect(pasted.body).include({ status: 'succeeded', content: 'The dog is lazy.' });
  });

  describe('lists', () => {
    let ada: Member;
    let grace: Member;
    before(async () => {
      ada = await shared.signUp();
      grace = await aColleague(shared, ada);
      const everybodys = await rootOf(ada, 'org_root');
      const first = await aDocumentIn(ada, everybodys, 'first.txt');
      await aDocumentIn(ada, await rootOf(ada, 'personal_root'), 'private.txt');
      await aDocumentIn(ada, everybodys, 'second.txt');
      await aDocumentIn(grace, await rootOf(grace, 'personal_root'), 'hers.txt');
      await ada.patch(`/documents/${first}`, { name: 'changed.txt' }, 200);
    });

    const list = async (path: string, member = ada) =>
      documentListSchema.parse((await member.get(`/documents${path}`, 200)).body);
    const names = async (path: string, member = ada) => (await list(path, member)).items.map(({ name }) => name);

    it('show each member the documents that they may read, last changed first, in pages', async () => {
      const eve = await shared.signUp('Eve');
      for (const path of ['', '/recent']) {
        expect(await names(path), path).deep.equal(['changed.txt', 'second.txt', 'private.txt']);
        expect(await names(path, grace), path).deep.equal(['changed.txt', 'hers.txt', 'second.txt']);
        expect(await list(path, eve), path).deep.include({ items: [], total: 0 });
        expect(await names(`${path}?limit=2`), path).deep.equal(['changed.txt', 'second.txt']);
        expect(await list(`${path}?limit=2`), path).include({ total: 3, total_pages: 2, has_more: true });
      }
      expect(await names('?limit=2&offset=2')).deep.equal(['private.txt']);
      expect(await list('?limit=2&offset=2')).include({ total: 3, has_more: false });
    });

    it('are filtered by folder and by author, and omit deleted documents', async () => {
      const personal = await rootOf(ada, 'personal_root');
      const gone = await aDocumentIn(ada, personal, 'gone.txt');
      expect(await names(`?folder_id=${personal}`)).deep.equal(['gone.txt', 'private.txt']);
      await (await shared.signUp('Eve')).get(`/documents?folder_id=${personal}`, 404);
      expect(await list('/recent?mine=true')).include({ total: 4 });
      await ada.delete(`/documents/${gone}`, 204);
      expect(await list('/recent?mine=true')).include({ total: 3 });
      expect(await names('/recent?mine=true', grace)).deep.equal(['hers.txt']);
      expect(await list('/recent?mine=false', grace)).include({ total: 3 });
    });
  });

  it('PATCH /documents/{document_id} with a new original removes the converted text of the old one', async () => {
    const ada = await shared.signUp();
    const id = await anIngestedDocument(ada, 'Fox', 'The secret of the first original.');
    const traces = await tracesOf(shared, id);
    await replaceOriginal(ada, id, { name: 'fox.txt', content: 'What replaced it.' });
    await untilRun(ada, `ingest-${id}-2`, 'succeeded');
    expect(await remainsOf(shared, traces))
      .include('documents')
      .and.not.include('conversions');
  });

  describe('DELETE /documents/{document_id}', () => {
    let ada: Member;
    beforeEach(async () => {
      ada = await shared.signUp();
    });

    it('hides the document at once, removes its data from all stores, and keeps only its jobs', async () => {
      const id = await anIngestedDocument(ada, 'Fox', 'The quick brown fox jumps over the lazy dog.');
      const traces = await tracesOf(shared, id);
      expect(await remainsOf(shared, traces)).length.greaterThan(6);
      const [chunk] = chunkListSchema.parse((await ada.get(`/documents/${id}/chunks`, 200)).body).items;
      await ada.delete(`/documents/${id}`, 204);
      for (const path of ['', '/file', '/chunks', '/chunking-status', '/embedding-status']) {
        await ada.get(`/documents/${id}${path}`, 404);
      }
      await ada.get(`/documents/chunks/${chunk?.id}`, 404);
      await ada.delete(`/documents/${id}`, 404);
      expect((await ada.get('/documents', 200)).body).deep.include({ items: [], total: 0 });
      const { body } = await ada.get(`/folders/${await rootOf(ada, 'personal_root')}`, 200);
      expect(body).deep.include({ documents: [] });

      await untilJob(ada, deletionWorkflowId(id), 'succeeded');
      expect(await remainsOf(shared, traces)).deep.equal([]);
      expect(Object((await ada.get(`/jobs?document_id=${id}`, 200)).body).items).length(2);
      await untilRun(ada, `ingest-${id}-1`, 'succeeded');
    });

    it('keeps content that another document shares', async () => {
      const content = 'Foxes of two documents are the same foxes.';
      const first = await anIngestedDocument(ada, 'One', content);
      const second = await anIngestedDocument(ada, 'Two', content);
      await ada.delete(`/documents/${first}`, 204);
      await untilJob(ada, deletionWorkflowId(first), 'succeeded');
      const kept = await remainsOf(shared, await tracesOf(shared, second));
      expect(kept).include.members(['conversions', 'embeddings', 'chunkVectors']);
      expect((await readDocument(ada, second)).content).equal(content);
    });
  });
});
