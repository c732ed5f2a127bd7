import { expect } from 'chai';
import { chunkListSchema } from '#src/modules/documents/chunks.schema.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { chunkPreviewsSchema, maxPreviewCharacters } from '#src/modules/rag/rag.schema.ts';
import type { Member } from '#test/support/client.ts';
import { type ScriptedStack, scriptedStack } from '#test/support/scripted-stack.ts';
import { untilRun } from '#test/support/until-job.ts';

const path = '/rag/chunks/preview';
const subjects = ['The fox jumps over the lazy dog', 'A mortgage is a loan for a house', 'Snow falls in the mountains'];
const content = subjects
  .map((subject) => Array.from({ length: 12 }, (_, n) => `${subject} on day ${n}.`).join(' '))
  .join('\n\n');

describe('POST /rag/chunks/preview', () => {
  let shared: ScriptedStack;
  let ada: Member;
  before(async () => {
    shared = await scriptedStack();
    ada = await shared.signUp();
  });
  after(() => shared.model.failEmbeddings(false));

  const preview = async (body: object) => chunkPreviewsSchema.parse((await ada.post(path, body, 200)).body);
  const paths = async (body: object) =>
    ((await ada.post(path, body, 422)).body as { errors: { path: string }[] }).errors.map((error) => error.path);

  for (const method of ['token', 'semantic'] as const) {
    it(`200: equals a later ingestion (${method}), and stores nothing`, async () => {
      const { db } = shared.container;
      const eve = await shared.signUp('Eve');
      const { chunks, total } = chunkPreviewsSchema.parse(
        (
          await eve.post(
            path,
            { content, config: { chunking: { method, target_tokens: 90, overlap_tokens: 20 } } },
            200,
          )
        ).body,
      );
      expect(chunks).length(total).and.length.above(2);
      for (const table of ['documents', 'chunks', 'embeddings', 'conversions']) {
        expect(await db(table).where({ orgId: eve.orgId }).first('orgId'), table).equal(undefined);
      }

      const fields = { chunking_method: method, target_tokens: '90', overlap_tokens: '20' };
      const { body } = await ada.upload('/documents', { name: 'days.md', content }, 201, { fields });
      const { id, embedding_job_id: jobId } = fullDocumentSchema.parse(body);
      await untilRun(ada, jobId ?? '', 'succeeded');
      const { items } = chunkListSchema.parse((await ada.get(`/documents/${id}/chunks`, 200)).body);
      expect(chunks).deep.equal(
        items.map(({ chunk_index: index, content, token_count, chunk_kind }) => {
          return { index, content, token_count, contextual_text: null, chunk_kind };
        }),
      );
    });
  }

  it('200: accepts a whole configuration, only chunking, or none', async () => {
    const byDefault = await preview({ content });
    const chunking = { method: 'token', target_tokens: 30, overlap_tokens: 0 };
    const whole = {
      chunking,
      retrieval: { mode: 'vector', rrf_k: 1, word_match_limit: 1, vector_limit: 7, min_vector_similarity: 0 },
      reranking: { enabled: false, reranker_type: 'llm', top_k: 1 },
      embedding: { model: shared.config.models.embeddingModel },
    };
    const small = await preview({ content, config: whole });
    expect(small.total).above(byDefault.total);
    expect(small.chunks.map((chunk) => chunk.content).join('')).equal(content);
    for (const config of [{ chunking }, chunking, { target_tokens: 30, overlap_tokens: 0 }]) {
      expect(await preview({ content, config })).deep.equal(small);
    }
  });

  it('401: without a token', async () => {
    await shared.anonymous.post(path, { content }, 401);
  });

  it('413: rejects a body over the size limit', async () => {
    await ada.post(path, { content: 'x'.repeat(9 * 1024 ** 2) }, 413);
  });

  it('422: names what is missing, out of range, unknown or inconsistent', async () => {
    const wrong: [string, object][] = [
      ['content', {}],
      ['content', { content: ' \n' }],
      ['content', { content: 'x'.repeat(maxPreviewCharacters + 1) }],
      ['name', { content, name: 'fox' }],
      ['config.unit', { content, config: { unit: 'word' } }],
      ['config.chunking.unit', { content, config: { chunking: { unit: 'word' } } }],
      ['config.chunking', { content, config: { method: 'token', chunking: {} } }],
      ['config.method', { content, config: { method: 'page' } }],
      ['config.chunking.target_tokens', { content, config: { chunking: { target_tokens: 0 } } }],
      ['config.chunking.overlap_tokens', { content, config: { chunking: { overlap_tokens: 400 } } }],
      ['config.retrieval.rrf_k', { content, config: { retrieval: { rrf_k: 0 } } }],
    ];
    for (const [place, body] of wrong) expect(await paths(body), place).include(place);
  });

  it('422: rejects an embedding model that is not offered', async () => {
    const config = { method: 'semantic', embedding: { model: 'nobody-offers-this' } };
    expect((await ada.post(path, { content, config }, 422)).body).include({ code: 'unknown_model' });
  });

  it('422: rejects too many chunks', async () => {
    const config = { target_tokens: 1, overlap_tokens: 0 };
    const { body } = await ada.post(path, { content: 'word '.repeat(100_000), config }, 422);
    expect(body).include({ code: 'preview_too_large' });
  });

  it('422: rejects too many sentences for semantic chunking only', async () => {
    const long = { content: 'So it goes on. '.repeat(1_001) };
    await preview(long);
    const refused = await ada.post(path, { ...long, config: { method: 'semantic' } }, 422);
    expect(refused.body).include({ code: 'preview_too_large' });
  });

  it('503: reports a failed embedding service for semantic chunking only', async () => {
    shared.model.failEmbeddings(true);
    await preview({ content });
    const failed = await ada.post(path, { content, config: { method: 'semantic' } }, 503);
    expect(failed.body).include({ code: 'model_unavailable' });
  });
});
