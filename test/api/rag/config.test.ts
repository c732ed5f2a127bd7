import { expect } from 'chai';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { folderTreeNodeSchema } from '#src/modules/folders/folders.schema.ts';
import { type RagConfigDto, ragConfigResultSchema } from '#src/modules/rag/rag.schema.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

describe('the configuration of a document', () => {
  let stack: Stack;
  let ada: Member;
  let id: string;
  before(async () => {
    stack = await startStack({}, { workers: false });
    ada = await stack.signUp();
  });
  after(() => stack.close());
  beforeEach(async () => {
    id = await upload();
  });

  async function upload(fields: Record<string, string> = {}): Promise<string> {
    const form = { fields: { ingest: 'false', ...fields } };
    return fullDocumentSchema.parse(
      (await ada.upload('/documents', { name: 'fox.txt', content: 'fox' }, 201, form)).body,
    ).id;
  }
  const path = () => `/rag/config/${id}`;
  const read = async () => ragConfigResultSchema.parse((await ada.get(path(), 200)).body).config;
  const withChunking = (config: RagConfigDto, chunking: object) => ({
    ...config,
    chunking: { ...config.chunking, ...chunking },
  });

  describe('GET /rag/config/{document_id}', () => {
    it('200: returns the default of the deployment initially', async () => {
      expect(await read()).deep.equal({
        chunking: { method: 'token', target_tokens: 400, overlap_tokens: 60 },
        retrieval: {
          mode: 'hybrid',
          rrf_k: 60,
          word_match_limit: 50,
          vector_limit: 50,
          min_vector_similarity: 0.25,
        },
        reranking: { enabled: true, reranker_type: 'cross_encoder', top_k: 8 },
        embedding: { model: stack.config.models.embeddingModel },
      });
    });

    it('401: without a token', async () => {
      await stack.anonymous.get(path(), 401);
    });

    it('404: rejects a document that the caller may not read', async () => {
      const eve = await stack.signUp('Eve');
      expect((await eve.get(path(), 404)).body).include({ code: 'document_not_found' });
    });
  });

  describe('PUT /rag/config/{document_id}', () => {
    it('200: replaces the whole configuration', async () => {
      const changed: RagConfigDto = {
        chunking: { method: 'semantic', target_tokens: 8192, overlap_tokens: 0 },
        retrieval: { mode: 'vector', rrf_k: 1, word_match_limit: 1, vector_limit: 7, min_vector_similarity: 0 },
        reranking: { enabled: false, reranker_type: 'llm', top_k: 1 },
        embedding: { model: stack.config.models.embeddingModel },
      };
      expect((await ada.put(path(), changed, 200)).body).deep.equal({ config: changed });
      expect(await read()).deep.equal(changed);
    });

    it('200: marks the document stale only if its chunking or model changes', async () => {
      const { db } = stack.container;
      id = await upload({ ingest: 'true' });
      await db('documents').where({ id }).update({ activeGeneration: 1 });
      const config = await read();
      const flags = async () => fullDocumentSchema.parse((await ada.get(`/documents/${id}`, 200)).body);
      await ada.put(path(), { ...config, reranking: { ...config.reranking, top_k: 3 } }, 200);
      expect(await flags()).include({ chunking_stale: false, embedding_stale: false });
      await ada.put(path(), withChunking(config, { overlap_tokens: 10 }), 200);
      expect(await flags()).include({ chunking_stale: true, embedding_stale: true });
    });

    it('401: without a token', async () => {
      await stack.anonymous.put(path(), await read(), 401);
    });

    it('403: rejects a user who may only read the document', async () => {
      const grace = await aColleague(stack, ada);
      const folders = folderTreeNodeSchema.array().parse((await ada.get('/folders', 200)).body);
      const orgRoot = folders.find((folder) => folder.system_role === 'org_root')?.id ?? '';
      id = await upload({ target_folder_id: orgRoot });
      await grace.get(path(), 200);
      expect((await grace.put(path(), await read(), 403)).body).include({ code: 'forbidden' });
    });

    it('404: rejects an unknown document', async () => {
      const config = await read();
      await ada.put(`/rag/config/${crypto.randomUUID()}`, config, 404);
      await ada.put('/rag/config/7', config, 404);
    });

    it('412: rejects an outdated If-Match', async () => {
      const config = await read();
      const headers = { 'If-Match': (await ada.get(path(), 200)).headers.get('etag') ?? '' };
      await ada.put(path(), withChunking(config, { target_tokens: 300 }), 200, headers);
      await ada.put(path(), withChunking(config, { target_tokens: 200 }), 412, headers);
    });

    it('422: names what is out of range, missing, unknown or inconsistent', async () => {
      const config = await read();
      const { retrieval, reranking, ...incomplete } = config;
      const wrong: [string, object][] = [
        ['chunking.target_tokens', withChunking(config, { target_tokens: 0 })],
        ['chunking.target_tokens', withChunking(config, { target_tokens: 8193 })],
        ['chunking.overlap_tokens', withChunking(config, { overlap_tokens: -1 })],
        ['chunking.overlap_tokens', withChunking(config, { overlap_tokens: 400 })],
        ['chunking.method', withChunking(config, { method: 'page' })],
        ['chunking.unit', withChunking(config, { unit: 'word' })],
        ['retrieval.min_vector_similarity', { ...config, retrieval: { ...retrieval, min_vector_similarity: 2 } }],
        ['retrieval.rrf_k', { ...config, retrieval: { ...retrieval, rrf_k: 1.5 } }],
        ['reranking.top_k', { ...config, reranking: { ...reranking, top_k: 0 } }],
        ['retrieval', incomplete],
        ['embedding.model', { ...config, embedding: { model: 'nobody-offers-this' } }],
      ];
      for (const [place, body] of wrong) {
        expect((await ada.put(path(), body, 422)).body, place).nested.include({ 'errors[0].path': place });
      }
      expect(await read()).deep.equal(config);
    });
  });
});
