import { expect } from 'chai';
import {
  chunkInContextSchema,
  chunkingStatusSchema,
  chunkListSchema,
  embeddingStatusSchema,
} from '#src/modules/documents/chunks.schema.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

const paragraphs = Array.from({ length: 30 }, (_, n) => `The fox of paragraph ${n} jumps over ${n + 1} lazy dogs.`);
const body = `# Foxes\n\n${paragraphs.join('\n\n')}`;

describe('a document that was ingested', () => {
  let shared: Stack;
  let ada: Member;
  let id: string;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
    const form = { name: 'foxes.md', content: body, type: 'text/markdown' };
    const created = await ada.upload('/documents', form, 201, { fields: { target_tokens: '100' } });
    id = fullDocumentSchema.parse(created.body).id;
    await until('it is embedded', async () => (await embeddingStatus()).embedding_complete);
  });

  const embeddingStatus = async () =>
    embeddingStatusSchema.parse((await ada.get(`/documents/${id}/embedding-status`, 200)).body);
  const chunks = async () => chunkListSchema.parse((await ada.get(`/documents/${id}/chunks`, 200)).body).items;

  describe('GET /documents/{document_id}', () => {
    it('200: returns the content and the ids of the jobs', async () => {
      const document = fullDocumentSchema.parse((await ada.get(`/documents/${id}`, 200)).body);
      expect(document).to.include({ content: body, char_count: body.length, page_count: 1 });
      expect(document.content_preview).to.equal(body.slice(0, 280));
      expect(document).to.include({ chunking_complete: true, embedding_complete: true });
      expect(document.embedding_job_id).to.equal(`ingest-${id}-1.embed`);
    });

    it('304: answers a matching ETag without a body', async () => {
      const { headers } = await ada.get(`/documents/${id}`, 200);
      await ada.get(`/documents/${id}`, 304, { 'If-None-Match': headers.get('etag') ?? '' });
    });
  });

  describe('GET /documents/{document_id}/chunks', () => {
    it('200: lists the chunks in order', async () => {
      const items = await chunks();
      expect(items.length).to.be.greaterThan(3);
      expect(items.map((chunk) => chunk.chunk_index)).to.deep.equal(items.map((_, index) => index));
      for (const chunk of items) {
        expect(chunk.embedded).to.equal(true);
        expect(chunk.token_count).to.be.within(1, 100);
      }
    });
  });

  describe('GET /documents/chunks/{chunk_id}', () => {
    it('200: shows a chunk where it stands', async () => {
      for (const { id: chunkId } of await chunks()) {
        const chunk = chunkInContextSchema.parse((await ada.get(`/documents/chunks/${chunkId}`, 200)).body);
        expect(chunk).to.include({ document_id: id, document_name: 'foxes.md', visibility: 'personal' });
        expect(chunk).to.include({ page_number: 1 });
        expect(body.startsWith(chunk.content, chunk.content_offset)).to.equal(true);
      }
    });
  });

  describe('GET /documents/{document_id}/chunking-status', () => {
    it('200: counts the chunks', async () => {
      const { length } = await chunks();
      const status = chunkingStatusSchema.parse((await ada.get(`/documents/${id}/chunking-status`, 200)).body);
      expect(status).to.include({ chunking_complete: true, chunk_count: length });
    });
  });

  describe('GET /documents/{document_id}/embedding-status', () => {
    it('200: counts the embedded chunks, all of them after the ingestion', async () => {
      const { length } = await chunks();
      expect(await embeddingStatus()).to.include({ chunks_total: length, chunks_embedded: length });
    });
  });

  const addresses = (documentId: string, chunkId: string) => [
    [`/documents/${documentId}`, 'document_not_found'],
    [`/documents/${documentId}/chunks`, 'document_not_found'],
    [`/documents/${documentId}/chunking-status`, 'document_not_found'],
    [`/documents/${documentId}/embedding-status`, 'document_not_found'],
    [`/documents/chunks/${chunkId}`, 'chunk_not_found'],
  ];

  it('401: rejects a request without a token', async () => {
    for (const [path = ''] of addresses(id, crypto.randomUUID())) await shared.anonymous.get(path, 401);
  });

  it('404: answers another member and another organization as for an unknown document', async () => {
    const [chunk] = await chunks();
    for (const stranger of [await aColleague(shared, ada), await shared.signUp('Eve')]) {
      for (const [path = '', code] of addresses(id, chunk?.id ?? '')) {
        expect((await stranger.get(path, 404)).body).to.include({ code });
      }
    }
  });

  it('404: rejects a malformed id', async () => {
    for (const [path = '', code] of addresses('7', '7')) expect((await ada.get(path, 404)).body).to.include({ code });
  });
});
