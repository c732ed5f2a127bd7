import { expect } from 'chai';
import type { Knex } from 'knex';
import { createIngestionActivities, type IngestionActivities } from '#activities/ingestion.ts';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import { ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { runActivity } from '#test/support/activity-environment.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import type { Member } from '#test/support/client.ts';
import { embeddedTexts, type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { answerEmbeddings } from '#test/support/scripted-server.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

/** Windows per slice. */
const sliceSize = 2_048;

describe('embedding windows for semantic chunking', () => {
  let model: ScriptedModel;
  let own: Stack;
  let ada: Member;
  let db: Knex;
  let activities: IngestionActivities;

  before(async () => {
    model = await startScriptedModel();
    own = await startStack({ OPENAI_BASE_URL: model.baseUrl, EMBEDDING_MODEL: 'lengths' }, { workers: false });
    ada = await own.signUp();
    db = own.container.db;
    activities = createIngestionActivities(own.container);
  });
  after(async () => {
    await own.close();
    await model.close();
  });

  const answer = answerEmbeddings((text) => [text.length, 1], 'lengths');
  beforeEach(() => {
    model.behaveEmbedding(answer);
    model.calls.length = 0;
  });

  const sentences = (count: number, word: string) =>
    Array.from({ length: count }, (_, index) => `Sentence ${word} ${index} is short.`).join(' ');

  type StepName = 'parseDocument' | 'convertDocument' | 'embedWindows' | 'chunkDocument' | 'embedChunks';
  const run = (name: StepName, of: IngestDocumentInput) =>
    runActivity<IngestDocumentInput, unknown>(activities[name], of);

  async function convert(content: string, options: Record<string, string> = {}): Promise<IngestDocumentInput> {
    const fields = { chunking_method: 'semantic', ...options };
    const { body } = await ada.upload('/documents', { name: 'note.txt', content }, 201, { fields });
    const of = { orgId: ada.orgId, documentId: fullDocumentSchema.parse(body).id, generation: 1 };
    await run('parseDocument', of);
    await run('convertDocument', of);
    return of;
  }

  it('embeds windows in slices, and not again when the document is chunked', async () => {
    const count = sliceSize + 300;
    const of = await convert(sentences(count, 'long'));
    expect(await run('convertDocument', of)).property('needsWindows', true);
    expect(await run('embedWindows', of)).deep.equal({ windowsEmbedded: sliceSize, windowsLeft: 300 });
    expect(embeddedTexts(model)).length(sliceSize);
    const job = (await ada.get(`/jobs/${ingestWorkflowId(of.documentId, 1)}`, 200)).body;
    expect(job).deep.include({ stage: 'chunk', progress: { done: sliceSize, total: count, unit: 'sentences' } });

    expect(await run('embedWindows', of)).deep.equal({ windowsEmbedded: count, windowsLeft: 0 });
    await run('chunkDocument', of);
    expect(embeddedTexts(model)).length(count);
    expect(new Set(embeddedTexts(model)).size).equal(count);
    expect(await run('embedWindows', of)).property('windowsLeft', 0);
  });

  it('keeps windows that were embedded before the model failed', async () => {
    const of = await convert(sentences(600, 'failing'));
    let answered = 0;
    model.behaveEmbedding((response, body: { input: string[] }) => {
      if (answered >= 256) return void response.writeHead(503).end();
      answered += body.input.length;
      answer(response, body as never);
    });
    expect(await appErrorCode(run('embedWindows', of))).equal('model_unavailable');
    model.behaveEmbedding(answer);
    model.calls.length = 0;
    expect(await run('embedWindows', of)).deep.equal({ windowsEmbedded: 600, windowsLeft: 0 });
    expect(embeddedTexts(model)).length(600 - answered);
  });

  it('embeds no windows when chunking by tokens or for a short text', async () => {
    const byTokens = await convert(sentences(600, 'tokens'), { chunking_method: 'token' });
    expect(await run('convertDocument', byTokens)).not.property('needsWindows');
    const short = await convert(sentences(3, 'few'));
    for (const document of [byTokens, short]) {
      expect(await run('embedWindows', document)).deep.equal({ windowsEmbedded: 0, windowsLeft: 0 });
    }
    expect(embeddedTexts(model)).length(0);
  });

  it('keeps cached windows until their document is chunked, and deletes them when they are a day old', async () => {
    const eve = await own.signUp('Eve');
    const jobs = () => db('jobs').where({ orgId: ada.orgId });
    await jobs().update({ finishedAt: db.fn.now() });
    const of = await convert(sentences(30, 'kept'));
    await run('embedWindows', of);
    await db('embeddings').update({ createdAt: db.raw(`now() - interval '25 hours'`) });
    const [some] = await db('embeddings').where({ orgId: ada.orgId });
    await db('embeddings').insert({ ...some, orgId: eve.orgId });
    const sweep = async () => {
      for (let after = null; ; ) {
        after = await own.container.embeddings.sweepUnused(after);
        if (after === null) return;
      }
    };
    const countOf = async (orgId: string) => (await db('embeddings').where({ orgId })).length;
    await sweep();
    expect(await countOf(ada.orgId), 'before it is chunked').least(30);
    expect(await countOf(eve.orgId), 'of another organization').equal(0);

    await run('chunkDocument', of);
    await sweep();
    expect(await countOf(ada.orgId)).equal(0);
  });

  it('counts embedded chunks in the job after each call of the model', async () => {
    const of = await convert(sentences(150, 'counted'), {
      chunking_method: 'token',
      target_tokens: '10',
      overlap_tokens: '0',
    });
    expect(await run('chunkDocument', of)).deep.equal({ chunksTotal: 150 });
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    let calls = 0;
    model.behaveEmbedding(async (response, body) => {
      calls += 1;
      if (calls > 1) await released;
      answer(response, body as never);
    });
    const step = run('embedChunks', of);
    const progress = async () => (await ada.get(`/jobs/${ingestWorkflowId(of.documentId, 1)}`, 200)).body;
    await until('64 of 150 are embedded', async () => {
      const job = await progress();
      return JSON.stringify(job).includes('"done":64,"total":150') ? job : undefined;
    });
    release();
    await step;
    expect(await progress()).deep.include({ stage: 'embed', progress: { done: 150, total: 150, unit: 'chunks' } });
  });
});
