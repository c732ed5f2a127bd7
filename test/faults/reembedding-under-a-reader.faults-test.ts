import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import type { ReembeddingProgress } from '#src/contracts/ingestion.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { ragConfigResultSchema } from '#src/modules/rag/rag.schema.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { anIngestedDocument } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { expectInvariants, uploadText } from '#test/support/fault-case.ts';
import { question, wordVector } from '#test/support/indexed-documents.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { answerEmbeddings, answerError } from '#test/support/scripted-server.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';

const query = 'When does the loan counter open?';
const COUNT = 25;

describe('a change of the embedding model while a user searches', function () {
  this.timeout(120_000);
  let model: ScriptedModel;
  let stack: Stack;
  let ada: Member;
  /** Calls of the new model wait for it. */
  const held = Promise.withResolvers<void>();
  let isPoisoned = true;

  before(async () => {
    model = await startScriptedModel();
    model.offer(['old', 'new'].map((id) => ({ id, kind: 'embedding' })));
    model.behaveEmbedding(async (response, body: { model: string; input: string[] }) => {
      if (body.model === 'new' && !body.input.includes(query)) await held.promise;
      const isRefused = body.model === 'new' && isPoisoned && body.input.some((text) => text.includes('Poison'));
      const answer = answerEmbeddings((text) => [...wordVector(body.model, text)], body.model);
      (isRefused ? answerError(400, 'no') : answer)(response, body as never);
    });
    stack = await startStack({ OPENAI_BASE_URL: model.baseUrl, EMBEDDING_MODEL: 'old' });
    ada = await stack.signUp();
  });
  after(async () => {
    await stack.close();
    await model.close();
  });

  /** The documents by configured and active model. */
  async function byModels() {
    const rows = await stack.container.db('documents').where({ orgId: ada.orgId }).whereNull('deletedAt');
    return Map.groupBy(rows, (row) => `${row.ragConfig.embedding.model} ${row.activeEmbeddingModel}`);
  }

  /** Searches until it is stopped: each expected document is found each time. @returns stops it, and tells how often */
  function startReader(expected: ReadonlySet<string>): () => Promise<number> {
    let isOver = false;
    async function readUntilOver(): Promise<number> {
      const actor = (await stack.container.auth.findActor(ada.userId)) ?? expect.fail('there is no user');
      let looks = 0;
      for (; !isOver; looks += 1) {
        const wanted = [...expected];
        const { ranked, degradations } = await stack.container.retrieval.rankChunks(actor, question(query));
        const found = new Set(ranked.map((chunk) => chunk.documentId));
        expect(degradations).deep.equal([]);
        expect(wanted.filter((id) => expected.has(id) && !found.has(id))).deep.equal([]);
        // As often as many readers would, and not so often that nothing else gets on.
        await delay(10);
      }
      return looks;
    }
    const reading = readUntilOver();
    reading.catch(() => undefined);
    return () => {
      isOver = true;
      return reading;
    };
  }

  it('keeps every document findable at any time, can be paused, and counts and retries failed documents', async () => {
    const { reembedding, temporal } = stack.container;
    const of = { orgId: ada.orgId };
    const jobId = `reembed-${ada.orgId}`;
    const texts = Array.from({ length: COUNT }, (_, n) => `Branch ${n}: the loan counter opens at nine.`);
    const ingest = (text: string) => anIngestedDocument(ada, text.slice(0, 10), text);
    const ids = await Promise.all([...texts, 'Poison: the loan counter opens at ten.'].map(ingest));
    const [poison = '', deleted = ''] = ids.toReversed();
    for (const id of ids) {
      const { config } = ragConfigResultSchema.parse((await ada.get(`/rag/config/${id}`, 200)).body);
      await ada.put(`/rag/config/${id}`, { ...config, retrieval: { ...config.retrieval, mode: 'vector' } }, 200);
    }
    await uploadText(ada, 'It was never ingested.', { ingest: 'false' });
    expect(await byModels()).have.all.keys('old old', 'old null');
    const expected = new Set(ids);
    const stopReader = startReader(expected);

    await reembedding.start({ ...of, model: 'new' });
    expect(await appErrorCode(reembedding.start({ ...of, model: 'new' }))).equal('job_open');
    const run = temporal.client.workflow.getHandle(jobId);
    const underWay = async () => (await run.query<ReembeddingProgress>(stageQueryName)).jobIds;
    await until('twenty are under way', async () => (await underWay()).length === 20);
    expect(await reembedding.setPaused(of, true)).equal('done');
    held.resolve();
    await until('what was under way is done', async () => (await underWay()).length === 0);
    const progress = { done: 20, total: COUNT + 2, unit: 'documents' };
    const paused = { kind: 'reembed', status: 'running', stage: 'paused', progress };
    expect((await ada.get(`/jobs/${jobId}`, 200)).body).deep.include(paused);
    expect((await byModels()).get('new new')).length(20);
    expected.delete(deleted);
    await ada.delete(`/documents/${deleted}`, 204);
    expected.add(await ingest('Lately the loan counter opens at eight.'));

    expect(await reembedding.setPaused(of, false)).equal('done');
    expect((await untilJob(ada, jobId, 'failed')).last_error).include({ code: 'reembedding_incomplete' });
    const models = await byModels();
    expect(models.get('new old')?.map(({ id }) => id)).deep.equal([poison]);
    expect([models.get('new new')?.length, models.get('new null')?.length]).deep.equal([COUNT, 1]);

    isPoisoned = false;
    await ada.post(`/jobs/${jobId}/retry`, {}, 202);
    await untilJob(ada, jobId, 'succeeded');
    expect(await byModels()).have.all.keys('new new', 'new null');
    expect(await stopReader()).above(10);
    await expectInvariants(stack);
  });
});
