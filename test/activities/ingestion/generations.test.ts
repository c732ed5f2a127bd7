import { CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { loadConfig } from '#src/config.ts';
import { createContainer } from '#src/container.ts';
import type {
  IngestDocumentInput,
  RecordIngestionEndInput,
  RecordIngestionFailureInput,
} from '#src/contracts/ingestion.ts';
import { activityEnvironment, runActivity } from '#test/support/activity-environment.ts';
import { useIdleStack } from '#test/support/idle-stack.ts';
import {
  type IngestionStep,
  ingestionOn,
  sentences,
  untilChunked,
  untilEmbedded,
  uploadFile,
} from '#test/support/ingestion-steps.ts';
import { answerEmbeddings } from '#test/support/scripted-server.ts';

describe('generations of a document', () => {
  const healthy = answerEmbeddings((text) => [text.length, 1], 'embedding-1');
  const own = useIdleStack({ EMBEDDING_MODEL: 'embedding-1' }, (model) => model.behaveEmbedding(healthy));
  let ingestion: ReturnType<typeof ingestionOn>;
  before(() => {
    ingestion = ingestionOn(own);
  });
  const run = (name: IngestionStep, of: IngestDocumentInput) => ingestion.run(name, of);
  const runAll: typeof ingestion.runAll = (...steps) => ingestion.runAll(...steps);
  const recordEnd = (name: 'recordFailure' | 'recordCancellation', of: RecordIngestionEndInput) =>
    runActivity<RecordIngestionFailureInput, void>(ingestion.activities[name], {
      ...of,
      error: { code: 'model_rejected', message: 'No.' },
    });

  const upload = (word: string, count = 9) => uploadFile(own.ada, sentences(count, word));
  const replaceFile = ({ documentId }: IngestDocumentInput, content: string) => {
    const form = { method: 'PATCH', fields: { ingest: 'false' } } as const;
    return own.ada.upload(`/documents/${documentId}`, { name: 'other.txt', content }, 200, form);
  };
  const chunksOf = ({ documentId, generation }: IngestDocumentInput) =>
    own.db('chunks').where({ documentId, generation });
  const documentOf = ({ documentId }: IngestDocumentInput) => own.db('documents').where({ id: documentId }).first();
  const jobOf = ({ documentId }: IngestDocumentInput) =>
    own.db('jobs').where({ documentId, kind: 'ingest' }).orderBy('id').first();

  it('embeds chunks in slices of 1,024', async () => {
    const of = await runAll(await upload('sliced', 1_100), untilChunked);
    const { length } = await chunksOf(of);
    expect(length).greaterThan(1_024);
    expect(await run('embedChunks', of)).deep.equal({ chunksEmbedded: 1_024, chunksLeft: length - 1_024 });
    expect(await run('embedChunks', of)).deep.equal({ chunksEmbedded: length, chunksLeft: 0 });
    await run('activateGeneration', of);
  });

  it('embeds with the model of the generation, not with the present model of the deployment', async () => {
    const of = await upload('two models');
    const setModel = (name: string) =>
      own.db.raw(`update documents set rag_config = jsonb_set(rag_config, '{embedding,model}', ?) where id = ?`, [
        ...[JSON.stringify(name), of.documentId],
      ]);
    const other = createContainer(loadConfig({ ...own.settings, EMBEDDING_MODEL: 'embedding-3' }), 'test');
    const ingest = async (next: IngestDocumentInput) => {
      own.model.calls.length = 0;
      await ingestionOn({ container: other }).runAll(next);
      const models = own.model.calls.map(({ body }) => (body as { model: string }).model);
      const stored = await own.db('chunkVectors').where({ documentId: of.documentId }).distinct('model').pluck('model');
      return { asked: [...new Set(models)], stored };
    };
    own.model.behaveEmbedding((response, body: { model: string; input: string[] }) => {
      answerEmbeddings((text) => [text.length, 1], body.model)(response, body as never);
    });
    try {
      expect(await ingest(of)).deep.equal({ asked: ['embedding-1'], stored: ['embedding-1'] });
      await setModel('embedding-2@2');
      const second = await ingestion.openNext(of);
      await setModel('embedding-1');
      expect(await ingest(second)).deep.equal({ asked: ['embedding-2'], stored: ['embedding-2@2'] });
      expect(await documentOf(of)).include({ activeEmbeddingModel: 'embedding-2@2' });
    } finally {
      own.model.behaveEmbedding(healthy);
      await other.close();
    }
  });

  it('builds a generation from the document as it was when the generation was requested', async () => {
    const of = await upload('asked');
    await run('parseDocument', of);
    await own.ada.patch(`/documents/${of.documentId}`, { name: 'Renamed', target_tokens: 100, ingest: false }, 200);
    await replaceFile(of, sentences(3, 'other'));
    await runAll(of);
    const chunks = await chunksOf(of);
    expect(chunks).length.greaterThan(3);
    for (const { contextualText, content } of chunks) {
      expect(contextualText).equal('note.txt (page 1)');
      expect(content).include('asked');
    }
    const { body } = await own.ada.get(`/documents/${of.documentId}`, 200);
    expect(body).include({ chunking_stale: true, embedding_stale: true, source_format: 'text' });
  });

  it('deletes the original of an old generation when nothing else uses it', async () => {
    const of = await upload('first');
    const { blobKey } = await documentOf(of);
    await replaceFile(of, 'second');
    expect(await own.container.blobs.exists(blobKey)).equal(true);
    await runAll(await ingestion.openNext(of));
    expect(await own.container.blobs.exists(blobKey)).equal(false);
  });

  it('deletes older generations in the next attempt when activation was cancelled before it did', async () => {
    const first = await runAll(await upload('collected'));
    const second = await runAll(await ingestion.openNext(first), untilEmbedded);
    const cancelled = activityEnvironment();
    cancelled.cancel();
    const ended = ingestion.run('activateGeneration', second, cancelled);
    expect(await ended.catch((failure: unknown) => failure)).instanceOf(CancelledFailure);
    expect(await documentOf(first)).include({ activeGeneration: 2 });
    expect(await chunksOf(first)).not.empty;
    await run('activateGeneration', second);
    expect(await chunksOf(first)).deep.equal([]);
  });

  const ends = [
    { end: 'recordFailure', status: 'failed', errorCode: 'model_rejected' },
    { end: 'recordCancellation', status: 'cancelled', errorCode: null },
  ] as const;

  it('records how a run ended: as such for the newest generation, as superseded for an older one', async () => {
    for (const { end, ...newest } of ends) {
      const of = await upload(`${end} of the newest`);
      await recordEnd(end, of);
      expect(await jobOf(of), end).include(newest);
      const older = await upload(`${end} of an older one`);
      await ingestion.openNext(older);
      await recordEnd(end, older);
      expect(await jobOf(older), end).include({ status: 'cancelled', errorCode: 'superseded' });
    }
  });

  it('ignores the late end of an earlier attempt', async () => {
    for (const { end, status } of ends) {
      const of = await upload(`${end} late`);
      const { id, startId } = await jobOf(of);
      await recordEnd(end, { ...of, attempt: 1, startId });
      expect(await own.container.jobs.retry(own.db, id)).equal(true);
      await recordEnd(end, { ...of, attempt: 1 });
      // After a restore of the database, Temporal may count more attempts than the job.
      await recordEnd(end, { ...of, attempt: 2, startId });
      expect(await jobOf(of), end).include({ status: 'queued', finishedAt: null });
      await recordEnd(end, { ...of, attempt: 2 });
      expect(await jobOf(of), end).include({ status });
    }
  });

  it('deletes cached embeddings and conversions that were unused for a day', async () => {
    const used = await runAll(await upload('used'));
    const kept = await chunksOf(used);
    const { conversionId } = await own.db('documentGenerations').where({ documentId: used.documentId }).first();
    const { orgId } = used;
    const createdAt = own.db.raw(`now() - interval '2 days'`);
    for (const table of ['embeddings', 'conversions']) await own.db(table).where({ orgId }).update({ createdAt });
    const [old, fresh] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
    const converted = { orgId, converterVersion: '1', sourceFormat: 'text', body: 'x' };
    for (const [textSha256, since] of [
      [old, { createdAt }],
      [fresh, {}],
    ] as const) {
      const vector = Buffer.alloc(8);
      await own.db('embeddings').insert({ orgId, model: 'embedding-1', vector, textSha256, ...since });
      const contentSha256 = textSha256.toString('hex');
      await own.db('conversions').insert({ ...converted, id: crypto.randomUUID(), contentSha256, ...since });
    }

    expect(await own.container.embeddings.sweepUnused(null)).equal(null);
    expect(await own.container.ingestion.sweepUnusedConversions()).equal(null);
    const hashes = (await own.db('embeddings').where({ orgId })).map(({ textSha256 }) => textSha256.toString('hex'));
    const stillThere = [fresh, ...kept.map(({ textSha256 }) => textSha256)].map((hash) => hash.toString('hex'));
    expect(hashes).include.members(stillThere).and.not.include(old.toString('hex'));
    const conversions: { id: string; contentSha256: string }[] = await own.db('conversions').where({ orgId });
    const ofConversions = conversions.flatMap(({ id, contentSha256 }) => [id, contentSha256]);
    expect(ofConversions)
      .include.members([conversionId, fresh.toString('hex')])
      .and.not.include(old.toString('hex'));
  });
});
