import { CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { createIngestionActivities } from '#activities/ingestion.ts';
import { loadConfig } from '#src/config.ts';
import { createContainer } from '#src/container.ts';
import type { IngestDocumentInput, RecordIngestionEndInput } from '#src/contracts/ingestion.ts';
import type { OcrLine } from '#src/ports/documents.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { replaceOriginal } from '#test/support/builders.ts';
import { contentDigest } from '#test/support/content-digest.ts';
import { needsPdfium, scanOf, useConverter } from '#test/support/converter-environment.ts';
import { pdfFile, pdfOfLines } from '#test/support/document-fixtures.ts';
import {
  activityEnvironment,
  ingestionOn,
  ingestionSteps,
  runActivity,
  sentences,
  untilChunked,
  untilEmbedded,
  uploadFile,
} from '#test/support/ingestion-steps.ts';
import { answerEmbeddings } from '#test/support/scripted-server.ts';
import { isLockAwaited } from '#test/support/services.ts';
import { useIdleStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

describe('ingestion activities', () => {
  const own = useIdleStack({ EMBEDDING_MODEL: 'embedding-1' }, (model) =>
    model.behaveEmbedding((response, body: { model: string; input: string[] }) =>
      answerEmbeddings((text) => [text.length, 1], body.model)(response, body as never),
    ),
  );
  const { run, runAll, openNext } = ingestionOn(own);
  const files = useConverter();
  const upload = (content: string | Uint8Array<ArrayBuffer>, fields = {}) => uploadFile(own.ada, content, fields);

  const rowsOf = (table: string, { documentId }: IngestDocumentInput) => own.db(table).where({ documentId });
  const documentOf = ({ documentId }: IngestDocumentInput) => own.db('documents').where({ id: documentId }).first();
  const contentsOf = (of: IngestDocumentInput) => rowsOf('chunks', of).orderBy('chunkIndex').pluck('content');
  const generationsOf = (table: string, of: IngestDocumentInput) =>
    rowsOf(table, of).distinct('generation').orderBy('generation').pluck('generation');

  const recordEnd = (name: 'recordFailure' | 'recordCancellation', of: RecordIngestionEndInput) => {
    const failure = { ...of, error: { code: 'model_rejected' as const, message: 'No.' } };
    return runActivity(createIngestionActivities(own.container)[name], failure);
  };
  const step = { signal: new AbortController().signal, report: () => undefined, note: () => undefined };

  const uploadSentences = (word: string, count = 9) => upload(sentences(count, word));
  const chunksOf = ({ documentId, generation }: IngestDocumentInput) =>
    own.db('chunks').where({ documentId, generation });
  const jobOf = ({ documentId }: IngestDocumentInput) =>
    own.db('jobs').where({ documentId, kind: 'ingest' }).orderBy('id').first();

  /** Everything an ingestion stores, except times. */
  async function stateOf(of: IngestDocumentInput): Promise<unknown> {
    const tables = ['documentGenerations', 'chunks', 'documentTerms', 'chunkVectors'];
    const stored = await Promise.all(tables.map((table): Promise<object[]> => rowsOf(table, of)));
    const withoutTimes = (row: object) =>
      JSON.stringify(Object.entries(row).filter(([, value]) => !(value instanceof Date)));
    const { sourceFormat, generation, activeGeneration } = await documentOf(of);
    return { sourceFormat, generation, activeGeneration, stored: stored.map((rows) => rows.map(withoutTimes).sort()) };
  }

  it('leave the same state if each step runs once, twice in turn or twice at once, and if one activity runs all steps', async () => {
    const content = sentences(9, 'twice');
    const [stepwise, whole] = [await upload(content), await upload(content)];
    for (const name of ingestionSteps) {
      const first = await run(name, stepwise);
      const once = await stateOf(stepwise);
      const second = await run(name, stepwise);
      expect(await stateOf(stepwise), name).deep.equal(once);
      if (name !== 'convertDocument') expect(second, name).deep.equal(first);
    }
    for (let times = 0; times < 2; times += 1) {
      expect(await own.container.ingestion.atOnce(whole, step)).include({ isDone: true });
      expect(await contentDigest(own.db, whole.documentId)).equal(await contentDigest(own.db, stepwise.documentId));
    }
    const job = await rowsOf('jobs', whole).first();
    expect(job).include({ status: 'succeeded', stage: 'activate' });
    expect(job.progressDone).equal(job.progressTotal).above(1);

    const large = await uploadSentences('together', 200);
    for (const name of ingestionSteps) await Promise.all([run(name, large), run(name, large)]);
    const { chunksTotal, chunksEmbedded } = await rowsOf('documentGenerations', large).first();
    expect(chunksTotal).equal(chunksEmbedded).greaterThan(100);
    const indexes = await rowsOf('chunks', large).orderBy('chunkIndex').pluck('chunk_index');
    expect(indexes).deep.equal(Array.from({ length: chunksTotal }, (_, index) => index));
  });

  it('run all steps in one activity for a web page, and stop at a document of many chunks or a picture', async () => {
    const atOnce = async (content: string | Uint8Array<ArrayBuffer>, name = 'note.txt') =>
      own.container.ingestion.atOnce(await upload(content, { name }), step);
    const page = '<!doctype html><html><body><p>It is a page.</p></body></html>';
    expect(await atOnce(page, 'page.txt')).include({ chunksTotal: 1, isDone: true });
    // Each is four bytes and four tokens.
    const long = await atOnce('🜁 '.repeat(600));
    expect(long).include({ isDone: false });
    expect(long.chunksTotal).above(64);
    const picture = Uint8Array.from(Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex'));
    expect(await atOnce(picture, 'page.txt')).deep.equal({ converted: null, chunksTotal: null, isDone: false });
    expect(await appErrorCode(atOnce(' \n '))).equal('empty_document');
  });

  it('resume embedding after the last stored batch, and embed 1,024 chunks per call of the activity', async () => {
    const of = await runAll(await uploadSentences('resumed', 1_600), untilChunked);
    const { length } = await chunksOf(of);
    const interrupted = activityEnvironment();
    // The first heartbeats may come before a batch is stored.
    interrupted.on('heartbeat', (details: unknown) => {
      if (details !== undefined) interrupted.cancel('CANCELLED');
    });
    const fault = await run('embedChunks', of, interrupted).catch((error: unknown) => error);
    expect(fault).instanceOf(Error).property('name', 'CancelledFailure');

    const embedded = () => rowsOf('chunks', of).whereNotNull('embeddedAt');
    const kept = await embedded().select('id', 'embeddedAt');
    expect(kept).length.within(256, 512);
    const chunksEmbedded = kept.length + 1_024;
    const { expectedSeconds, ...slice } = Object(await run('embedChunks', of));
    expect(slice).deep.equal({ chunksEmbedded, chunksLeft: length - chunksEmbedded });
    expect(await rowsOf('jobs', of).first()).include({ expectedSeconds });
    expect(expectedSeconds).above(0);
    expect(await run('embedChunks', of)).deep.equal({ chunksEmbedded: length, chunksLeft: 0 });
    const all = new Map((await embedded()).map((chunk) => [chunk.id, chunk.embeddedAt.getTime()]));
    for (const { id, embeddedAt } of kept) expect(all.get(id)).equal(embeddedAt.getTime());
    await run('activateGeneration', of);
  });

  it('convert equal content once per organization', async () => {
    for (const reused of [false, true]) {
      const of = await runAll(await uploadSentences('shared', 3), ['parseDocument']);
      expect(await run('convertDocument', of)).include({ reused });
    }
  });

  it('reuse the pages that OCR has read before, and delete these pages after the conversion', async function () {
    needsPdfium(this);
    const scan = await scanOf(files.folder, await files.write('drawn.pdf', pdfOfLines('Read now')));
    const of = await upload(new Uint8Array(pdfFile([[scan], [scan]])), { name: 'scan.pdf' });
    await run('parseDocument', of);
    const lines: OcrLine[] = [['Read before', 10, 100, -20, 10, false, 0]];
    const page = { ...of, pageIndex: 0, lines: JSON.stringify(lines), converterVersion: files.converter.version };
    await own.db('recognizedPages').insert([page, { ...page, pageIndex: 1, converterVersion: 'older' }]);
    expect(await run('convertDocument', of))
      .include({ pageCount: 2, reused: false })
      .and.not.have.property('pagesLeft');
    const job = await rowsOf('jobs', of).first();
    expect(job).include({ progressDone: 2, progressTotal: 2, progressUnit: 'pages' });
    expect(await own.db('conversions').where({ orgId: of.orgId, body: 'Read before\n\nRead now' })).length(1);

    const other = await upload(new Uint8Array(pdfFile([[scan]])), { name: 'scan.pdf' });
    await runAll(other, untilChunked);
    expect(await contentsOf(other)).deep.equal(['Read now']);
    expect(await own.db('recognizedPages')).deep.equal([]);
  });

  it('throw superseded from every step of an older generation, and document_not_found for a deleted document', async () => {
    const old = await runAll(await uploadSentences('superseded'), untilEmbedded);
    const newer = await openNext(old);
    for (const name of ingestionSteps) expect(await appErrorCode(run(name, old)), name).equal('superseded');
    await runAll(newer);
    expect(await documentOf(old)).include({ activeGeneration: 2 });
    for (const table of ['documentGenerations', 'chunks', 'chunkVectors']) {
      expect(await generationsOf(table, old), table).deep.equal([2]);
    }
    await own.db('documents').where({ id: old.documentId }).delete();
    for (const name of ingestionSteps) expect(await appErrorCode(run(name, old)), name).equal('document_not_found');
  });

  it('store no chunks of a generation if a newer generation is requested during the chunking', async () => {
    const old = await runAll(await uploadSentences('overtaken'), untilChunked.slice(0, -1));
    const chunked = await own.db.transaction(async (trx) => {
      await trx('documentGenerations').where({ documentId: old.documentId }).forUpdate().first();
      const refused = appErrorCode(run('chunkDocument', old));
      await until('the step waits to store the chunks', () => isLockAwaited(own.db));
      await trx('documents').where({ id: old.documentId }).update({ generation: 2 });
      return { refused };
    });
    expect(await chunked.refused).equal('superseded');
    expect(await contentsOf(old)).deep.equal([]);
  });

  it('refuse to activate a generation with missing vectors, and embed the chunks without vectors again', async () => {
    const of = await runAll(await uploadSentences('incomplete'), untilEmbedded);
    const progressOf = async () => {
      const { chunksEmbedded, chunksTotal } = await rowsOf('documentGenerations', of).first();
      return { missing: chunksTotal - chunksEmbedded, active: (await documentOf(of)).activeGeneration };
    };
    const chunk = await rowsOf('chunks', of).first('id');
    await own.db('chunkVectors').where({ chunkId: chunk.id }).delete();
    expect(await appErrorCode(run('activateGeneration', of))).equal('vectors_missing');
    expect(await progressOf()).deep.equal({ missing: 1, active: null });
    await runAll(of, ['embedChunks', 'activateGeneration']);
    expect(await progressOf()).deep.equal({ missing: 0, active: 1 });
  });

  it('delete the generation of a cancelled run, at the cancellation or when the next run begins', async () => {
    const of = await runAll(await uploadSentences('first', 30));
    const second = await runAll(await openNext(of), untilEmbedded);
    const third = await openNext(second);
    await recordEnd('recordCancellation', second);
    expect(await generationsOf('documentGenerations', of)).deep.equal([1, 3]);
    for (const table of ['chunks', 'chunkVectors']) expect(await generationsOf(table, of), table).deep.equal([1]);
    await run('parseDocument', await openNext(third));
    expect(await generationsOf('documentGenerations', of)).deep.equal([1, 4]);
  });

  it('embed with the model of the generation, not with the model that the deployment has now', async () => {
    const of = await uploadSentences('two models');
    const update = `update documents set rag_config = jsonb_set(rag_config, '{embedding,model}', ?) where id = ?`;
    const setModel = (name: string) => own.db.raw(update, [JSON.stringify(name), of.documentId]);
    const other = createContainer(loadConfig({ ...own.settings, EMBEDDING_MODEL: 'embedding-3' }), 'test');
    const ingest = async (next: IngestDocumentInput) => {
      own.model.calls.length = 0;
      await ingestionOn({ container: other }).runAll(next);
      const models = own.model.calls.map(({ body }) => (body as { model: string }).model);
      const stored = await own.db('chunkVectors').where({ documentId: of.documentId }).distinct('model').pluck('model');
      return { asked: [...new Set(models)], stored };
    };
    try {
      expect(await ingest(of)).deep.equal({ asked: ['embedding-1'], stored: ['embedding-1'] });
      await setModel('embedding-2@2');
      const second = await openNext(of);
      await setModel('embedding-1');
      expect(await ingest(second)).deep.equal({ asked: ['embedding-2'], stored: ['embedding-2@2'] });
      expect(await documentOf(of)).include({ activeEmbeddingModel: 'embedding-2@2' });
    } finally {
      await other.close();
    }
  });

  it('build a generation from the document as it was when requested; the next generation deletes a replaced original', async () => {
    const of = await uploadSentences('asked');
    const { blobKey } = await documentOf(of);
    await run('parseDocument', of);
    await own.ada.patch(`/documents/${of.documentId}`, { name: 'Renamed', target_tokens: 100, ingest: false }, 200);
    const other = { name: 'other.txt', content: sentences(3, 'other') };
    await replaceOriginal(own.ada, of.documentId, other, { ingest: 'false' });
    await runAll(of);
    const chunks = await chunksOf(of);
    expect(chunks).length.greaterThan(3);
    for (const { contextualText, content } of chunks) {
      expect(contextualText).equal('note.txt (page 1)');
      expect(content).include('asked');
    }
    const { body } = await own.ada.get(`/documents/${of.documentId}`, 200);
    expect(body).include({ chunking_stale: true, embedding_stale: true, source_format: 'text' });
    expect(await own.container.blobs.exists(blobKey)).equal(true);
    await runAll(await openNext(of));
    expect(await own.container.blobs.exists(blobKey)).equal(false);
  });

  it('delete older generations in the next attempt when the activation was cancelled before their deletion', async () => {
    const first = await runAll(await uploadSentences('collected'));
    const second = await runAll(await openNext(first), untilEmbedded);
    const cancelled = activityEnvironment();
    cancelled.cancel();
    const ended = run('activateGeneration', second, cancelled);
    expect(await ended.catch((failure: unknown) => failure)).instanceOf(CancelledFailure);
    expect(await documentOf(first)).include({ activeGeneration: 2 });
    expect(await chunksOf(first)).not.empty;
    await run('activateGeneration', second);
    expect(await chunksOf(first)).deep.equal([]);
  });

  it('record how the latest attempt ended, ignore the ends of earlier ones, and record older generations as superseded', async () => {
    for (const { end, ...ended } of [
      { end: 'recordFailure', status: 'failed', errorCode: 'model_rejected' },
      { end: 'recordCancellation', status: 'cancelled', errorCode: null },
    ] as const) {
      const older = await uploadSentences(`${end} of an older one`);
      await openNext(older);
      await recordEnd(end, older);
      expect(await jobOf(older), end).include({ status: 'cancelled', errorCode: 'superseded' });

      const of = await uploadSentences(`${end} of the newest`);
      const { id, startId } = await jobOf(of);
      await recordEnd(end, { ...of, attempt: 1, startId });
      expect(await jobOf(of), end).include(ended);
      expect(await own.container.jobs.retry(own.db, id)).equal(true);
      await recordEnd(end, { ...of, attempt: 1 });
      // After a restore of the database, Temporal may count more attempts than the job.
      await recordEnd(end, { ...of, attempt: 2, startId });
      expect(await jobOf(of), 'after the late end of an earlier attempt').include({
        status: 'queued',
        finishedAt: null,
      });
      await recordEnd(end, { ...of, attempt: 2 });
      expect(await jobOf(of), end).include(ended);
    }
  });

  it('delete cached conversions that were unused for a day', async () => {
    const of = await runAll(await uploadSentences('used'));
    const { orgId } = of;
    const { contentSha256 } = await documentOf(of);
    const longAgo = own.db.raw(`now() - interval '2 days'`);
    await own.db('conversions').where({ orgId }).update({ createdAt: longAgo });
    const conversion = { orgId, converterVersion: '1', sourceFormat: 'text', body: 'x' };
    for (const [name, createdAt] of Object.entries({ old: longAgo, new: new Date() })) {
      await own.db('conversions').insert({ ...conversion, id: crypto.randomUUID(), contentSha256: name, createdAt });
    }
    // An open job may still need what is cached.
    await own.db('jobs').where({ orgId }).update({ finishedAt: longAgo });
    expect(await own.container.ingestion.sweepUnusedConversions()).property('next', null);
    const converted = await own.db('conversions').where({ orgId }).pluck('content_sha256');
    expect(converted).include.members(['new', contentSha256]).and.not.include('old');
  });
});
