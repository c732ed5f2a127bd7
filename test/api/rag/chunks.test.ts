import { expect } from 'chai';
import { chunkListSchema } from '#src/modules/documents/chunks.schema.ts';
import { chunkPreviewsSchema, ingestRequestResultSchema, maxPreviewCharacters } from '#src/modules/rag/rag.schema.ts';
import { aColleague, aDocumentIn, anUpload, readDocument, replaceOriginal, rootOf } from '#test/support/builders.ts';
import type { ApiClient, Member } from '#test/support/client.ts';
import { type ScriptedStack, scriptedStack, stoppedIngestion, untilStatus } from '#test/support/scripted-stack.ts';
import { until } from '#test/support/until.ts';
import { untilRun } from '#test/support/until-job.ts';

const content = ['Leave', 'Travel', 'Loans']
  .map((name) => `# ${name}\n\n${Array.from({ length: 12 }, (_, n) => `Rule ${n} of ${name} says so.`).join(' ')}`)
  .join('\n\n');
const long = 'So it goes on. '.repeat(1_001);

describe('the chunks of documents:', () => {
  let stack: ScriptedStack;
  let ada: Member;
  before(async () => {
    stack = await scriptedStack();
    ada = await stack.signUp();
  });
  afterEach(() => stack.model.failEmbeddings(false));

  async function ingested(text: string, fields: Record<string, string> = {}): Promise<string> {
    const { id } = await anUpload(ada, { name: 'rules.md', content: text }, fields);
    await untilRun(ada, `ingest-${id}-1`, 'succeeded');
    return id;
  }
  const chunksOf = async (documentId: string) =>
    chunkListSchema.parse((await ada.get(`/documents/${documentId}/chunks`, 200)).body).items;

  describe('POST /rag/ingest/{document_id}', () => {
    const small = { target_tokens: '40', overlap_tokens: '0' };
    const ingest = async (id: string, body: object = {}) =>
      ingestRequestResultSchema.parse((await ada.post(`/rag/ingest/${id}`, body, 200)).body);
    const run = (id: string, generation: number) => `ingest-${id}-${generation}.embed`;

    it('ingests a document that was only stored before, and only once for concurrent and later requests', async () => {
      const { id } = await anUpload(ada, { name: 'rules.md', content }, { ingest: 'false' });
      const asked = { document_id: id, upload_complete: true, embedding_job_id: run(id, 1) };
      const answers = await Promise.all(Array.from({ length: 8 }, () => ingest(id)));
      for (const answer of answers) expect(answer).include(asked);
      expect(answers.filter(({ queued }) => queued)).length(1);
      await untilRun(ada, run(id, 1), 'succeeded');
      const done = { queued: false, chunking_complete: true, embedding_complete: true };
      expect(await ingest(id)).include({ ...asked, ...done });
    });

    it('rebuilds stale chunks while readers see the old chunks', async () => {
      const id = await ingested(content, small);
      const { config } = Object((await ada.get(`/rag/config/${id}`, 200)).body);
      const before = await chunksOf(id);
      await ada.put(`/rag/config/${id}`, { ...config, chunking: { ...config.chunking, target_tokens: 200 } }, 200);
      expect(await ingest(id)).include({ queued: true, embedding_job_id: run(id, 2) });
      const seen = new Set<number>();
      await until('the new chunks are there', async () => {
        const { length } = await chunksOf(id);
        seen.add(length);
        return length !== before.length;
      });
      const { length } = await chunksOf(id);
      expect(length).lessThan(before.length);
      expect([...seen]).deep.equal([before.length, length].filter((each) => seen.has(each)));
      expect(await readDocument(ada, id)).include({ chunking_stale: false, embedding_stale: false });
    });

    it('hides the document until the new chunks are complete if the request sets `redo`', async () => {
      const id = await ingested(content, small);
      const old = new Set((await chunksOf(id)).map((chunk) => chunk.id));
      const answer = { queued: true, embedding_complete: false, embedding_job_id: run(id, 2) };
      expect(await ingest(id, { redo: true })).include(answer);
      await until('the new chunks are there', async () => {
        const now = await chunksOf(id);
        expect(now.some((chunk) => old.has(chunk.id))).equal(false);
        expect(now.length).oneOf([0, old.size]);
        return now.length > 0;
      });
    });

    it('resumes a parked ingestion, and starts a new one if the last failed, was cancelled or is being cancelled', async () => {
      for (const [status, isCancelled, generation] of [
        ['parked', false, 1],
        ['failed', false, 2],
        ['parked', true, 2],
        ['running', true, 2],
      ] as const) {
        const { documentId, jobId } = await stoppedIngestion(stack, ada, status);
        if (isCancelled) await ada.post(`/jobs/${jobId}/cancel`, {}, 202);
        if (isCancelled && status === 'parked') await untilStatus(ada, jobId, 'cancelled');
        stack.model.failEmbeddings(false);
        const embedding_job_id = run(documentId, generation);
        expect(await ingest(documentId), `${status} ${isCancelled}`).include({ queued: true, embedding_job_id });
        await untilRun(ada, embedding_job_id, 'succeeded');
      }
    });
  });

  describe('a preview of chunks', () => {
    let id: string;
    before(async () => {
      id = await ingested(content, { target_tokens: '60' });
    });

    const ofText = async (body: object, as: ApiClient = ada) =>
      chunkPreviewsSchema.parse((await as.post('/rag/chunks/preview', body, 200)).body);
    const pathOf = (documentId: string) => `/rag/documents/${documentId}/chunks/preview`;
    const ofDocument = async (fields: Record<string, string>, as: ApiClient = ada) =>
      chunkPreviewsSchema.parse((await as.postForm(pathOf(id), fields, 200)).body);

    const previewsOf = async (documentId: string) =>
      (await chunksOf(documentId)).map(({ chunk_index: index, content, token_count, contextual_text, chunk_kind }) => {
        return { index, content, token_count, contextual_text, chunk_kind };
      });
    async function countStored({ orgId }: Member) {
      const { db } = stack.container;
      const tables = ['documents', 'chunks', 'embeddings', 'conversions'];
      return Promise.all(tables.map(async (table) => Number((await db(table).where({ orgId }).count())[0]?.count)));
    }

    for (const method of ['token', 'semantic'] as const) {
      it(`of a text shows the chunks that ingestion with ${method} chunking makes, and stores nothing`, async () => {
        const eve = await stack.signUp('Eve');
        const config = { chunking: { method, target_tokens: 90, overlap_tokens: 20 } };
        const { chunks, total } = await ofText({ content, config }, eve);
        expect(chunks).length(total).and.length.above(2);
        expect(await countStored(eve)).deep.equal([0, 0, 0, 0]);
        const fields = { chunking_method: method, target_tokens: '90', overlap_tokens: '20' };
        const stored = await previewsOf(await ingested(content, fields));
        expect(chunks).deep.equal(stored.map((chunk) => ({ ...chunk, contextual_text: null })));
      });

      it(`of a document shows the chunks of its next ingestion with ${method} chunking, and stores nothing`, async () => {
        const options = { chunking_method: method, target_tokens: '80', overlap_tokens: '30' };
        const [before, stored] = [await previewsOf(id), await countStored(ada)];
        const { chunks } = await ofDocument(options);
        expect(await previewsOf(id)).deep.equal(before);
        expect(await countStored(ada)).deep.equal(stored);
        const { body } = await ada.patch(`/documents/${id}`, { ...options, ingest: true }, 200);
        await untilRun(ada, Object(body).embedding_job_id, 'succeeded');
        expect(chunks).deep.equal(await previewsOf(id));
      });
    }

    it('uses the chunk sizes of the document by default, also for a user who may only read the document', async () => {
      id = await ingested(content, { target_tokens: '60' });
      const { chunks, total } = await ofDocument({});
      expect(chunks).deep.equal(await previewsOf(id));
      expect(total).equal(chunks.length).and.above(2);
      expect(chunks[0]?.contextual_text).equal('rules.md › Leave (page 1)');
      expect((await ada.post(pathOf(id), {}, 200)).body).deep.equal({ chunks, total });
      await ada.patch(`/documents/${id}`, { target_folder_id: await rootOf(ada, 'org_root') }, 200);
      expect(await ofDocument({}, await aColleague(stack, ada))).deep.equal({ chunks, total });
    });

    it('accepts a whole configuration, only its chunking section, or none', async () => {
      const byDefault = await ofText({ content });
      const chunking = { method: 'token', target_tokens: 30, overlap_tokens: 0 };
      const whole = {
        chunking,
        retrieval: { mode: 'vector', rrf_k: 1, word_match_limit: 1, vector_limit: 7, min_vector_similarity: 0 },
        reranking: { enabled: false, reranker_type: 'llm', top_k: 1 },
        embedding: { model: stack.config.models.embeddingModel },
      };
      const small = await ofText({ content, config: whole });
      expect(small.total).above(byDefault.total);
      expect(small.chunks.map((chunk) => chunk.content).join('')).equal(content);
      for (const config of [{ chunking }, chunking, { target_tokens: 30, overlap_tokens: 0 }]) {
        expect(await ofText({ content, config })).deep.equal(small);
      }
    });

    it('rejects configuration values that are out of range, unknown or inconsistent (422)', async () => {
      const wrong: [path: string, config: object][] = [
        ['config.chunking.unit', { chunking: { unit: 'word' } }],
        ['config.chunking', { method: 'token', chunking: {} }],
        ['config.chunking.overlap_tokens', { chunking: { overlap_tokens: 400 } }],
      ];
      const pathsOf = async (body: object) =>
        Object((await ada.post('/rag/chunks/preview', body, 422)).body).errors.map(
          ({ path }: { path: string }) => path,
        );
      for (const [path, config] of wrong) expect(await pathsOf({ content, config }), path).include(path);
      for (const text of [' \n', 'x'.repeat(maxPreviewCharacters + 1)]) {
        expect(await pathsOf({ content: text })).include('content');
      }
      const config = { method: 'semantic', embedding: { model: 'nobody-offers-this' } };
      const { body } = await ada.post('/rag/chunks/preview', { content, config }, 422);
      expect(body).include({ code: 'unknown_model' });
      const { body: ofForm } = await ada.postForm(pathOf(id), { target_tokens: '20', overlap_tokens: '20' }, 422);
      expect(ofForm).nested.include({ 'errors[0].path': 'overlap_tokens' });
    });

    it('rejects a text above the size limit (413), and a preview of too many chunks or sentences (422)', async () => {
      await ada.post('/rag/chunks/preview', { content: 'x'.repeat(9 * 1024 ** 2) }, 413);
      const tooLarge = async (asked: Promise<{ body: unknown }>) =>
        expect((await asked).body).include({ code: 'preview_too_large' });
      const words = { content: 'word '.repeat(100_000), config: { target_tokens: 1, overlap_tokens: 0 } };
      await tooLarge(ada.post('/rag/chunks/preview', words, 422));
      await ofText({ content: long });
      await tooLarge(ada.post('/rag/chunks/preview', { content: long, config: { method: 'semantic' } }, 422));
      const document = await ingested(long, { target_tokens: '400' });
      await ada.postForm(pathOf(document), {}, 200);
      await tooLarge(ada.postForm(pathOf(document), { chunking_method: 'semantic' }, 422));
    });

    it('needs a document whose current original is converted (409)', async () => {
      const stored = await aDocumentIn(ada, await rootOf(ada, 'personal_root'));
      expect((await ada.postForm(pathOf(stored), {}, 409)).body).include({ code: 'document_not_converted' });
      const replaced = await ingested('Old words.');
      await replaceOriginal(ada, replaced, { name: 'rules.md', content: 'New words.' }, { ingest: 'false' });
      await ada.postForm(pathOf(replaced), {}, 409);
    });

    it('needs the embedding service for semantic chunking only (503)', async () => {
      const other = { content: `${content} And more.` };
      const document = await ingested(other.content);
      stack.model.failEmbeddings(true);
      await ofText(other);
      await ada.postForm(pathOf(document), {}, 200);
      for (const failed of [
        await ada.post('/rag/chunks/preview', { ...other, config: { method: 'semantic' } }, 503),
        await ada.postForm(pathOf(document), { chunking_method: 'semantic' }, 503),
      ]) {
        expect(failed.body).include({ code: 'model_unavailable' });
      }
    });
  });
});
