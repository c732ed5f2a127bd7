import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import type { ReembeddingProgress } from '#src/contracts/ingestion.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { chunkListSchema } from '#src/modules/documents/chunks.schema.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { type JobDto, jobListSchema, jobSchema } from '#src/modules/jobs/jobs.schema.ts';
import { ragConfigResultSchema } from '#src/modules/rag/rag.schema.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { aColleague } from '#test/support/builders.ts';
import type { ApiClient, Member } from '#test/support/client.ts';
import { expectInvariants } from '#test/support/fault-case.ts';
import { question, wordVector } from '#test/support/retrieval-fixture.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { answerEmbeddings, answerError } from '#test/support/scripted-server.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { untilJob, untilRun } from '#test/support/until-job.ts';

const query = 'When does the loan counter open?';
const COUNT = 25;

describe('an organization that changes its embedding model under a reader', function () {
  this.timeout(120_000);
  let model: ScriptedModel;
  let stack: Stack;
  let ada: Member;
  let grace: ApiClient;
  let jobId: string;
  /** What is embedded by the new model waits for it. */
  let hold: Promise<void> = Promise.resolve();
  let isPoisoned = true;

  before(async () => {
    model = await startScriptedModel();
    model.offer([
      { id: 'old', kind: 'embedding' },
      { id: 'new', kind: 'embedding' },
    ]);
    model.behaveEmbedding((response, body: { model: string; input: string[] }) => {
      const answer = () => {
        const isRefused = body.model === 'new' && isPoisoned && body.input.some((text) => text.includes('Poison'));
        if (isRefused) return answerError(400, 'no')(response, body as never);
        answerEmbeddings((text) => [...wordVector(body.model, text)], body.model)(response, body as never);
      };
      if (body.model === 'old' || body.input.includes(query)) answer();
      else void hold.then(answer);
    });
    stack = await startStack({ OPENAI_BASE_URL: model.baseUrl, EMBEDDING_MODEL: 'old' });
    ada = await stack.signUp();
    grace = await aColleague(stack, ada);
    jobId = `reembed-${ada.orgId}`;
  });
  after(async () => {
    await stack.close();
    await model.close();
  });

  async function upload(name: string, content: string, fields: Record<string, string> = {}) {
    const { body } = await ada.upload('/documents', { name, content }, 201, { fields });
    return fullDocumentSchema.parse(body);
  }
  async function ingested(name: string, content: string): Promise<string> {
    const { id, embedding_job_id } = await upload(name, content);
    await untilRun(ada, embedding_job_id ?? '', 'succeeded');
    return id;
  }
  /** Of all documents that are there. */
  const modelsOf = async () => {
    const rows = await stack.container.db('documents').where({ orgId: ada.orgId }).whereNull('deletedAt');
    return Map.groupBy(rows, (row) => `${row.ragConfig.embedding.model} ${row.activeEmbeddingModel}`);
  };
  const job = async (as: ApiClient): Promise<JobDto> => jobSchema.parse((await as.get(`/jobs/${jobId}`, 200)).body);
  const state = (): Promise<ReembeddingProgress> =>
    stack.container.temporal.client.workflow.getHandle(jobId).query(stageQueryName);

  it('never misses a document, pauses, counts what fails, and tries that again', async () => {
    const { container } = stack;
    const { reembedding, retrieval, db } = container;
    const ids = await Promise.all(
      Array.from({ length: COUNT }, (_, n) =>
        ingested(`hours-${n}.txt`, `Branch ${n}: the loan counter opens at nine.`),
      ),
    );
    const poison = await ingested('poison.txt', 'Poison: the loan counter opens at ten.');
    ids.push(poison);
    for (const id of ids) {
      const { config } = ragConfigResultSchema.parse((await ada.get(`/rag/config/${id}`, 200)).body);
      await ada.put(`/rag/config/${id}`, { ...config, retrieval: { ...config.retrieval, mode: 'vector' } }, 200);
    }
    await upload('stored.txt', 'It was never ingested.', { ingest: 'false' });

    expect(await appErrorCode(reembedding.start({ orgId: ada.orgId, model: 'nobody-offers-this' }))).equal(
      'unknown_model',
    );
    expect(await appErrorCode(reembedding.start({ orgId: crypto.randomUUID(), model: 'new' }))).equal('not_found');
    expect([...(await modelsOf()).keys()]).have.members(['old old', 'old null']);

    const actor = await container.auth.findActor(ada.userId);
    if (actor === null) throw new Error('Ada is gone');
    const expected = new Set(ids);
    let looks = 0;
    let isOver = false;
    const reader = (async () => {
      while (!isOver) {
        const wanted = [...expected];
        const { ranked, degradations } = await retrieval.rankChunks(actor, question(query));
        const found = new Set(ranked.map((chunk) => chunk.documentId));
        expect(degradations).deep.equal([]);
        expect(wanted.filter((id) => expected.has(id) && !found.has(id))).deep.equal([]);
        looks += 1;
        // As often as many readers would, and not so often that nothing else gets on.
        await delay(10);
      }
    })();
    reader.catch(() => undefined);

    const { promise, resolve: release } = Promise.withResolvers<void>();
    hold = promise;
    await reembedding.start({ orgId: ada.orgId, model: 'new' });
    expect(await appErrorCode(reembedding.start({ orgId: ada.orgId, model: 'new' }))).equal('job_open');
    await until('twenty are under way', async () => (await state()).jobIds.length === 20);
    expect(await reembedding.setPaused({ orgId: ada.orgId }, true)).equal('done');
    expect(await reembedding.setPaused({ orgId: ada.orgId }, true)).equal('unchanged');
    release();
    await until('what was under way is done', async () => (await state()).jobIds.length === 0);
    expect(await job(ada)).deep.include({ kind: 'reembed', status: 'running', stage: 'paused' });
    expect((await modelsOf()).get('new new')).length(20);

    const { items } = jobListSchema.parse((await ada.get('/jobs?kind=reembed', 200)).body);
    expect(items.map((item) => item.progress)).deep.equal([{ done: 20, total: COUNT + 2, unit: 'documents' }]);
    await grace.get(`/jobs/${jobId}`, 404);
    const deleted = ids[COUNT - 1] ?? '';
    expected.delete(deleted);
    await ada.delete(`/documents/${deleted}`, 204);
    expected.add(await ingested('late.txt', 'Lately the loan counter opens at eight.'));

    expect(await reembedding.setPaused({ orgId: ada.orgId }, false)).equal('done');
    const failed = await untilJob(ada, jobId, 'failed');
    expect(failed.last_error).include({ code: 'reembedding_incomplete' });
    const models = await modelsOf();
    expect(models.get('new old')?.map(({ id }) => id)).deep.equal([poison]);
    expect(models.get('new new')).length(COUNT);
    expect(models.get('new null')).length(1);
    const chunks = chunkListSchema.parse((await ada.get(`/documents/${poison}/chunks`, 200)).body);
    expect(chunks.items.map((chunk) => chunk.embedding_model)).deep.equal(['old']);

    isPoisoned = false;
    await ada.post(`/jobs/${jobId}/retry`, {}, 202);
    await untilJob(ada, jobId, 'succeeded');
    expect([...(await modelsOf()).keys()]).have.members(['new new', 'new null']);
    isOver = true;
    await reader;
    expect(looks).above(10);
    await expectInvariants(stack);
    expect(await db('jobs').where({ orgId: ada.orgId, kind: 'ingest' }).whereNull('finishedAt')).deep.equal([]);

    await reembedding.start({ orgId: ada.orgId, model: 'new' });
    await untilJob(ada, jobId, 'succeeded');
    expect((await job(ada)).progress).deep.equal({ done: 0, total: 0, unit: 'documents' });
    expect(await reembedding.setPaused({ orgId: ada.orgId }, true)).equal('gone');
  });
});
