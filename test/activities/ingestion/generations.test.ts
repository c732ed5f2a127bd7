import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import type { Knex } from 'knex';
import { createIngestionActivities, type IngestionActivities } from '#activities/ingestion.ts';
import { loadConfig } from '#src/config.ts';
import { createContainer } from '#src/container.ts';
import type {
  IngestDocumentInput,
  RecordIngestionEndInput,
  RecordIngestionFailureInput,
} from '#src/contracts/ingestion.ts';
import { ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { createGenerationsRepository } from '#src/modules/ingestion/generations.repository.ts';
import { activityEnvironment, runActivity } from '#test/support/activity-environment.ts';
import type { Member } from '#test/support/client.ts';
import { type ScriptedModel, startScriptedModel } from '#test/support/scripted-model.ts';
import { answerEmbeddings } from '#test/support/scripted-server.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

const steps = ['parseDocument', 'convertDocument', 'chunkDocument', 'embedChunks', 'activateGeneration'] as const;

describe('generations of a document', () => {
  let model: ScriptedModel;
  let own: Stack;
  let ada: Member;
  let db: Knex;
  let activities: IngestionActivities;

  before(async () => {
    model = await startScriptedModel();
    model.behaveEmbedding(answerEmbeddings((text) => [text.length, 1], 'embedding-1'));
    own = await startStack({ OPENAI_BASE_URL: model.baseUrl, EMBEDDING_MODEL: 'embedding-1' }, { workers: false });
    ada = await own.signUp();
    db = own.container.db;
    activities = createIngestionActivities(own.container);
  });
  after(async () => {
    await own.close();
    await model.close();
  });

  const run = (name: (typeof steps)[number], of: IngestDocumentInput) =>
    runActivity<IngestDocumentInput, unknown>(activities[name], of);
  const recordEnd = (name: 'recordFailure' | 'recordCancellation', of: RecordIngestionEndInput) =>
    runActivity<RecordIngestionFailureInput, void>(activities[name], {
      ...of,
      error: { code: 'model_rejected', message: 'No.' },
    });
  const runAll = async (of: IngestDocumentInput, names: readonly (typeof steps)[number][] = steps) => {
    for (const name of names) await run(name, of);
  };

  const sentences = (word: string, count: number) =>
    Array.from({ length: count }, (_, index) => `Sentence ${word} ${index} says something.`).join(' ');
  async function upload(content: string): Promise<IngestDocumentInput> {
    const form = { fields: { target_tokens: '12', overlap_tokens: '0' } };
    const { body } = await ada.upload('/documents', { name: 'note.txt', content }, 201, form);
    return { orgId: ada.orgId, documentId: fullDocumentSchema.parse(body).id, generation: 1 };
  }
  async function open(of: IngestDocumentInput, generation: number, isRedo = false): Promise<IngestDocumentInput> {
    const next = { ...of, generation };
    const jobId = ingestWorkflowId(of.documentId, generation);
    await createGenerationsRepository(db).open({ ...next, jobId }, { isRedo });
    return next;
  }
  const chunksOf = ({ documentId, generation }: IngestDocumentInput) => db('chunks').where({ documentId, generation });

  it('embeds chunks in slices of 1,024', async () => {
    const of = await upload(sentences('sliced', 1_100));
    await runAll(of, steps.slice(0, 3));
    const { length } = await chunksOf(of);
    expect(length).greaterThan(1_024);
    expect(await run('embedChunks', of)).deep.equal({ chunksEmbedded: 1_024, chunksLeft: length - 1_024 });
    expect(await run('embedChunks', of)).deep.equal({ chunksEmbedded: length, chunksLeft: 0 });
    await run('activateGeneration', of);
  });

  it('embeds with the model of the generation, not with the present model of the deployment', async () => {
    const of = await upload(sentences('two models', 9));
    const setModel = (name: string) =>
      db('documents')
        .where({ id: of.documentId })
        .update({ ragConfig: db.raw(`jsonb_set(rag_config, '{embedding,model}', to_jsonb(?::text))`, [name]) });
    const other = createContainer(loadConfig({ ...own.settings, EMBEDDING_MODEL: 'embedding-3' }), 'test');
    const ingest = async (next: IngestDocumentInput) => {
      model.calls.length = 0;
      for (const name of steps) {
        await activityEnvironment().run<[IngestDocumentInput], unknown, IngestionActivities[typeof name]>(
          createIngestionActivities(other)[name],
          next,
        );
      }
      const models = model.calls.map(({ body }) => (body as { model: string }).model);
      const stored = await db('chunkVectors').where({ documentId: of.documentId }).distinct('model').pluck('model');
      return { asked: [...new Set(models)], stored };
    };
    model.behaveEmbedding((response, body: { model: string; input: string[] }) => {
      answerEmbeddings((text) => [text.length, 1], body.model)(response, body as never);
    });
    try {
      expect(await ingest(of)).deep.equal({ asked: ['embedding-1'], stored: ['embedding-1'] });
      await setModel('embedding-2@2');
      const second = await open(of, 2);
      await setModel('embedding-1');
      expect(await ingest(second)).deep.equal({ asked: ['embedding-2'], stored: ['embedding-2@2'] });
      expect(await db('documents').where({ id: of.documentId }).first()).include({
        activeEmbeddingModel: 'embedding-2@2',
      });
    } finally {
      model.behaveEmbedding(answerEmbeddings((text) => [text.length, 1], 'embedding-1'));
      await other.close();
    }
  });

  it('builds a generation from the document as it was when the generation was requested', async () => {
    const of = await upload(sentences('asked', 9));
    await run('parseDocument', of);
    const changed = { name: 'Renamed', target_tokens: 100, ingest: false };
    await ada.patch(`/documents/${of.documentId}`, changed, 200);
    const other = { name: 'other.txt', content: sentences('other', 3) };
    const form = { method: 'PATCH', fields: { ingest: 'false' } } as const;
    await ada.upload(`/documents/${of.documentId}`, other, 200, form);

    await runAll(of, steps.slice(1));
    const chunks = await chunksOf(of);
    expect(chunks).length.greaterThan(3);
    for (const chunk of chunks) expect(chunk).property('contextualText', 'note.txt (page 1)');
    for (const chunk of chunks) expect(chunk.content).include('asked');
    expect(fullDocumentSchema.parse((await ada.get(`/documents/${of.documentId}`, 200)).body)).include({
      chunking_stale: true,
      embedding_stale: true,
      source_format: 'text',
    });
  });

  it('deletes the original of an old generation when nothing else uses it', async () => {
    const of = await upload(sentences('first', 3));
    const { blobKey } = await db('documents').where({ id: of.documentId }).first();
    const path = join(own.config.dataDir, 'blobs/objects', blobKey);
    const form = { method: 'PATCH', fields: { ingest: 'false' } } as const;
    await ada.upload(`/documents/${of.documentId}`, { name: 'b.txt', content: 'second' }, 200, form);
    await access(path);
    await runAll(await open(of, 2));
    expect(await access(path).catch((error: NodeJS.ErrnoException) => error.code)).equal('ENOENT');
  });

  it('deletes the deactivated generation at the beginning of a redo', async () => {
    const first = await upload(sentences('redone', 9));
    await runAll(first);
    const second = await open(first, 2, true);
    expect(await chunksOf(first)).length.greaterThan(3);
    await run('parseDocument', second);
    for (const table of ['chunks', 'chunkVectors']) {
      expect(await db(table).where({ documentId: first.documentId }), table).deep.equal([]);
    }
    await runAll(second, steps.slice(1));
    expect(await chunksOf(second)).length.greaterThan(3);
  });

  it('deletes older generations in the next attempt when activation was cancelled before it did', async () => {
    const first = await upload(sentences('collected', 9));
    await runAll(first);
    const second = await open(first, 2);
    await runAll(second, steps.slice(0, 4));
    const cancelled = activityEnvironment();
    cancelled.cancel();
    const ended = cancelled.run<[IngestDocumentInput], void, IngestionActivities['activateGeneration']>(
      activities.activateGeneration,
      second,
    );
    expect(await ended.catch((failure: unknown) => failure)).instanceOf(CancelledFailure);
    expect(await db('documents').where({ id: first.documentId }).first()).include({ activeGeneration: 2 });
    expect(await chunksOf(first)).not.empty;
    await run('activateGeneration', second);
    expect(await chunksOf(first)).deep.equal([]);
  });

  it('closes the job of an older generation as superseded, whether its run failed or was cancelled', async () => {
    for (const end of ['recordFailure', 'recordCancellation'] as const) {
      const of = await upload(sentences(end, 3));
      await open(of, 2);
      await recordEnd(end, of);
      const job = await db('jobs')
        .where({ id: ingestWorkflowId(of.documentId, 1) })
        .first();
      expect(job, end).include({ status: 'cancelled', errorCode: 'superseded' });
    }
  });

  it('records failure and cancellation as such for the newest generation', async () => {
    for (const [end, status, errorCode] of [
      ['recordFailure', 'failed', 'model_rejected'],
      ['recordCancellation', 'cancelled', null],
    ] as const) {
      const of = await upload(sentences(`${end} as such`, 3));
      await recordEnd(end, of);
      const job = await db('jobs')
        .where({ id: ingestWorkflowId(of.documentId, 1) })
        .first();
      expect(job, end).include({ status, errorCode });
    }
  });

  it('ignores the late end of an earlier attempt', async () => {
    for (const end of ['recordFailure', 'recordCancellation'] as const) {
      const of = await upload(sentences(`${end} late`, 3));
      const jobId = ingestWorkflowId(of.documentId, 1);
      const { startId } = await db('jobs').where({ id: jobId }).first('startId');
      await recordEnd(end, { ...of, attempt: 1, startId });
      expect(await own.container.jobs.retry(db, jobId)).equal(true);
      await recordEnd(end, { ...of, attempt: 1 });
      // After a restore of the database, Temporal may count more attempts than the job.
      await recordEnd(end, { ...of, attempt: 2, startId });
      expect(await db('jobs').where({ id: jobId }).first(), end).include({ status: 'queued', finishedAt: null });
      await recordEnd(end, { ...of, attempt: 2 });
      expect((await db('jobs').where({ id: jobId }).first()).status, end).oneOf(['failed', 'cancelled']);
    }
  });

  it('deletes cached embeddings and conversions that were unused for a day', async () => {
    const used = await upload(sentences('used', 9));
    await runAll(used);
    const kept = await chunksOf(used);
    const { conversionId } = await db('documentGenerations').where({ documentId: used.documentId }).first();
    await db('embeddings')
      .where({ orgId: ada.orgId })
      .update({ createdAt: db.raw(`now() - interval '2 days'`) });
    await db('conversions')
      .where({ orgId: ada.orgId })
      .update({ createdAt: db.raw(`now() - interval '2 days'`) });

    const orphan = { orgId: ada.orgId, model: 'embedding-1', vector: Buffer.alloc(8) };
    await db('embeddings').insert([
      { ...orphan, textSha256: Buffer.alloc(32, 1), createdAt: db.raw(`now() - interval '2 days'`) },
      { ...orphan, textSha256: Buffer.alloc(32, 2) },
    ]);
    const converted = { orgId: ada.orgId, converterVersion: '1', sourceFormat: 'text', body: 'x' };
    await db('conversions').insert([
      { ...converted, id: crypto.randomUUID(), contentSha256: 'old', createdAt: db.raw(`now() - interval '2 days'`) },
      { ...converted, id: crypto.randomUUID(), contentSha256: 'new' },
    ]);

    const { embeddings, ingestion } = own.container;
    expect(await embeddings.sweepUnused(null)).equal(null);
    expect(await ingestion.sweepUnusedConversions()).equal(null);
    const cached: { textSha256: Buffer }[] = await db('embeddings').where({ orgId: ada.orgId });
    const hashes = new Set(cached.map(({ textSha256 }) => textSha256.toString('hex')));
    expect(hashes.has(Buffer.alloc(32, 1).toString('hex'))).equal(false);
    expect(hashes.has(Buffer.alloc(32, 2).toString('hex'))).equal(true);
    for (const chunk of kept) expect(hashes.has(chunk.textSha256.toString('hex'))).equal(true);
    const conversions: { id: string; contentSha256: string }[] = await db('conversions').where({ orgId: ada.orgId });
    expect(conversions.map(({ contentSha256 }) => contentSha256))
      .include('new')
      .not.include('old');
    expect(conversions.map(({ id }) => id)).include(conversionId);
  });
});
