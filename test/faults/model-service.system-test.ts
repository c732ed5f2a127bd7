import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { expect } from 'chai';
import type { Knex } from 'knex';
import { createIngestionActivities, type IngestionActivities } from '#activities/ingestion.ts';
import { createPgVectorStore } from '#src/adapters/vectors/pgvector.ts';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import { ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { createGenerationsRepository } from '#src/modules/ingestion/generations.repository.ts';
import { aPublishedAgent } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { answerEmbeddings, answerError, answerJson, type ScriptedAnswer } from '#test/support/scripted-server.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

/** What a broken service does, and what has to be said of it. */
const faults: Record<string, { answer: ScriptedAnswer; code: string }> = {
  'is busy for long': { answer: answerError(429, 'slow down', { 'retry-after': '600' }), code: 'model_unavailable' },
  'is busy and does not say how long': { answer: answerError(429, 'slow down'), code: 'model_unavailable' },
  fails: { answer: answerError(500, 'broken'), code: 'model_unavailable' },
  'hangs up': { answer: (response) => response.destroy(), code: 'model_unavailable' },
  'hangs up in the middle of its answer': {
    answer: (response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
      response.write('{"data":', () => response.destroy());
    },
    code: 'model_unavailable',
  },
  'gives no JSON': {
    answer: (response) => response.writeHead(200, { 'content-type': 'application/json' }).end('<html>'),
    code: 'model_response_invalid',
  },
  'gives too few vectors': { answer: answerJson(200, { data: [] }), code: 'model_response_invalid' },
  'gives vectors of another size': { answer: answerEmbeddings(() => [1, 0]), code: 'model_response_invalid' },
  'answers with another model': {
    answer: answerEmbeddings(() => [1, 0, 0], 'another-model'),
    code: 'model_response_invalid',
  },
  'refuses the key': { answer: answerError(401, 'wrong key'), code: 'model_not_configured' },
  'refuses the text': { answer: answerError(400, 'not like this'), code: 'model_rejected' },
};

describe('a model service that breaks', function () {
  this.timeout(60_000);
  let model: ScriptedModel;
  const stacks: Stack[] = [];

  before(async () => {
    model = await startScriptedModel();
  });
  after(async () => {
    for (const stack of stacks.reverse()) await stack.close();
    await model.close();
  });

  const healthy = answerEmbeddings((text) => [text.length, text.charCodeAt(text.length - 4), 1], 'embedding-1');

  /** A process of its own: what a service said is remembered by the process, and by the database that it shares. */
  async function startProcess(settings: Record<string, string> = {}): Promise<Stack> {
    const own = await startStack(
      { OPENAI_BASE_URL: model.baseUrl, EMBEDDING_MODEL: 'embedding-1', ...settings },
      { workers: false },
    );
    stacks.push(own);
    return own;
  }

  async function run(own: Stack, names: readonly (keyof IngestionActivities)[], of: IngestDocumentInput) {
    const activities = createIngestionActivities(own.container);
    const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR') });
    for (const name of names) {
      await environment.run(activities[name] as (input: IngestDocumentInput) => Promise<unknown>, of);
    }
  }

  let uploads = 0;
  async function upload(member: Member, sentences: number): Promise<IngestDocumentInput> {
    uploads += 1;
    const content = Array.from({ length: sentences }, (_, index) => `Sentence ${uploads}.${index} says something.`);
    const fields = { target_tokens: '12', overlap_tokens: '0' };
    const file = { name: `note-${uploads}.txt`, content: content.join(' ') };
    const { body } = await member.upload('/documents', file, 201, { fields });
    return { orgId: member.orgId, documentId: fullDocumentSchema.parse(body).id, generation: 1 };
  }
  const prepared = ['parseDocument', 'convertDocument', 'chunkDocument'] as const;

  const vectors = (db: Knex, of: IngestDocumentInput) =>
    db('chunkVectors').where({ documentId: of.documentId }).orderBy('chunkId').select('chunkId', 'embedding');
  const countCached = async (db: Knex) => Number((await db('embeddings').count({ count: '*' }).first())?.count);

  describe('while a document is embedded', () => {
    for (const [name, { answer, code }] of Object.entries(faults)) {
      it(`${name}: ${code}, nothing half stored, and all of it once it is well`, async () => {
        model.behaveEmbedding(healthy);
        const own = await startProcess();
        const { db } = own.container;
        const ada = await own.signUp();
        const first = await upload(ada, 3);
        await run(own, [...prepared, 'embedChunks'], first);
        const kept = await countCached(db);

        const of = await upload(ada, 5);
        await run(own, prepared, of);
        model.behaveEmbedding(answer);
        const fault: unknown = await run(own, ['embedChunks'], of).catch((error: unknown) => error);
        expect(fault).property('code', code);
        expect(await vectors(db, of)).deep.equal([]);
        expect(await countCached(db)).equal(kept);
        expect(await db('chunks').where({ documentId: of.documentId }).whereNotNull('embeddedAt')).deep.equal([]);

        model.behaveEmbedding(healthy);
        // Another process does not know of the pause that was asked for: a day would pass in this test otherwise.
        const healed = await startProcess({ DATABASE_URL: own.config.database.url, DATA_DIR: own.config.dataDir });
        await run(healed, ['embedChunks', 'activateGeneration'], of);
        expect(await vectors(db, of)).length.above(1);
      });
    }

    it('waits as long as it is asked to when that is short', async () => {
      const own = await startProcess();
      const of = await upload(await own.signUp(), 5);
      let calls = 0;
      model.behaveEmbedding((response, body) => {
        calls += 1;
        if (calls === 1) answerError(429, 'slow down', { 'retry-after': '1' })(response, body);
        else healthy(response, body);
      });
      await run(own, [...prepared, 'embedChunks', 'activateGeneration'], of);
      expect(calls).equal(2);
    });

    it('keeps what the calls before the fault gave, and asks for that no more', async () => {
      const own = await startProcess();
      const { db } = own.container;
      const of = await upload(await own.signUp(), 200);
      await run(own, prepared, of);
      const asked: string[] = [];
      let calls = 0;
      model.behaveEmbedding((response, body: { input: string[] }) => {
        calls += 1;
        asked.push(...body.input);
        if (calls <= 2) return healthy(response, body as never);
        until('the first calls are stored', async () => (await countCached(db)) === 128).then(
          () => answerError(500, 'broken')(response, body as never),
          () => response.destroy(),
        );
      });
      const fault: unknown = await run(own, ['embedChunks'], of).catch((error: unknown) => error);
      expect(fault).property('code', 'model_unavailable');

      asked.length = 0;
      model.behaveEmbedding((response, body: { input: string[] }) => {
        asked.push(...body.input);
        healthy(response, body as never);
      });
      await run(own, ['embedChunks', 'activateGeneration'], of);
      const [{ chunksTotal }] = await db('documentGenerations').where({ documentId: of.documentId });
      expect(chunksTotal).above(128);
      expect(asked).length(chunksTotal - 128);
    });
  });

  describe('vectors', () => {
    it('of a text are computed once for an organization', async () => {
      const own = await startProcess();
      const { db } = own.container;
      const ada = await own.signUp();
      const asked: string[] = [];
      model.behaveEmbedding((response, body: { input: string[] }) => {
        asked.push(...body.input);
        healthy(response, body as never);
      });
      const of = await upload(ada, 20);
      await run(own, [...prepared, 'embedChunks', 'activateGeneration'], of);
      const before = await vectors(db, of);
      expect(asked).length(before.length);

      const next = { ...of, generation: 2 };
      const jobId = ingestWorkflowId(next.documentId, next.generation);
      await createGenerationsRepository(db).open({ ...next, jobId }, { isRedo: false });
      asked.length = 0;
      await run(own, [...prepared, 'embedChunks', 'activateGeneration'], next);
      expect(asked).deep.equal([]);
      const after = await vectors(db, of);
      const embeddingsOf = (rows: typeof after) => rows.map((row: { embedding: string }) => row.embedding).sort();
      expect(embeddingsOf(after)).deep.equal(embeddingsOf(before));
    });

    it('of two models never mix', async () => {
      model.behaveEmbedding(healthy);
      const first = await startProcess();
      const ada = await first.signUp();
      const of = await upload(ada, 3);
      await run(first, [...prepared, 'embedChunks', 'activateGeneration'], of);
      const shared = { DATABASE_URL: first.config.database.url, DATA_DIR: first.config.dataDir };

      const search = async (name: string, dimensions: number): Promise<Set<string>> => {
        const hits = await createPgVectorStore(first.container.db).search({
          readable: { orgId: ada.orgId, acl: [`user:${ada.userId}`] },
          model: name,
          vector: Float32Array.from({ length: dimensions }, () => 1),
          limit: 50,
          minSimilarity: 0,
        });
        const chunkIds = hits.map((hit) => hit.chunkId);
        return new Set(await first.container.db('chunks').whereIn('id', chunkIds).pluck('document_id'));
      };

      // The same name with another size, as a provider that changed a model behind it.
      model.behaveEmbedding(answerEmbeddings(() => [1, 0, 0, 0]));
      const changed = await startProcess(shared);
      const refused = await upload(ada, 4);
      await run(changed, prepared, refused);
      const fault: unknown = await run(changed, ['embedChunks'], refused).catch((error: unknown) => error);
      expect(fault).property('code', 'embedding_model_changed');

      const { db } = first.container;
      const underItsName = { ragConfig: db.raw(`jsonb_set(rag_config, '{embedding,model}', '"embedding-2"')`) };
      await db('documents').where({ id: refused.documentId }).update(underItsName);
      await db('documentGenerations').where({ documentId: refused.documentId }).update(underItsName);
      const renamed = await startProcess({ ...shared, EMBEDDING_MODEL: 'embedding-2' });
      await run(renamed, ['embedChunks', 'activateGeneration'], refused);
      expect(await search('embedding-1', 3)).deep.equal(new Set([of.documentId]));
      expect(await search('embedding-2', 4)).deep.equal(new Set([refused.documentId]));
      expect(await search('embedding-1', 4)).deep.equal(new Set());
    });
  });

  it('lets a person go on without it, while he waits', async () => {
    const own = await startProcess();
    const ada = await own.signUp();
    const agentId = await aPublishedAgent(ada);
    model.behaveEmbedding(answerError(500, 'broken'));
    model.behave(() => ({ kind: 'break_off', text: 'Half of' }));
    const { body } = await ada.post('/chat', { agent_id: agentId, message: 'What is the fee?' }, 503);
    expect(body).include({ code: 'model_unavailable' });
    model.behave(() => ({ kind: 'answer', text: 'A whole answer.' }));
    await ada.post('/chat', { agent_id: agentId, message: 'What is the fee?' }, 201);
  });
});
