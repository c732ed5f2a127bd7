import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { createConverter } from '#src/adapters/converter/converter.ts';
import { createParserSandbox } from '#src/adapters/parser-sandbox.ts';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import type { OcrLine } from '#src/ports/documents.ts';
import { activityEnvironment } from '#test/support/activity-environment.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { contentDigest } from '#test/support/content-digest.ts';
import { needsPdfium } from '#test/support/converter-environment.ts';
import { pdfFile } from '#test/support/document-fixtures.ts';
import { useIdleStack } from '#test/support/idle-stack.ts';
import {
  ingestionOn,
  ingestionSteps,
  sentences,
  untilChunked,
  untilEmbedded,
  uploadFile,
} from '#test/support/ingestion-steps.ts';
import { pdfOfLines, scanOf } from '#test/support/picture-fixtures.ts';

describe('ingestion activities', () => {
  const own = useIdleStack();
  let ingestion: ReturnType<typeof ingestionOn>;
  before(() => {
    ingestion = ingestionOn(own);
  });
  const run: typeof ingestion.run = (...step) => ingestion.run(...step);
  const runAll: typeof ingestion.runAll = (...steps) => ingestion.runAll(...steps);
  const upload = (content: string | Uint8Array<ArrayBuffer>, fields = {}) => uploadFile(own.ada, content, fields);

  const rowsOf = (table: string, { documentId }: IngestDocumentInput) => own.db(table).where({ documentId });
  const documentOf = ({ documentId }: IngestDocumentInput) => own.db('documents').where({ id: documentId }).first();
  const contentsOf = (of: IngestDocumentInput) => rowsOf('chunks', of).orderBy('chunkIndex').pluck('content');
  const generationsOf = (table: string, of: IngestDocumentInput) =>
    rowsOf(table, of).distinct('generation').orderBy('generation').pluck('generation');

  /** Everything an ingestion stores, except times. */
  async function stateOf(of: IngestDocumentInput): Promise<unknown> {
    const tables = ['documentGenerations', 'chunks', 'documentTerms', 'chunkVectors'];
    const stored = await Promise.all(tables.map((table): Promise<object[]> => rowsOf(table, of)));
    const withoutTimes = (row: object) =>
      JSON.stringify(Object.entries(row).filter(([, value]) => !(value instanceof Date)));
    const { sourceFormat, generation, activeGeneration } = await documentOf(of);
    return { sourceFormat, generation, activeGeneration, stored: stored.map((rows) => rows.map(withoutTimes).sort()) };
  }

  it('leaves the same state when each step runs twice, and when one activity does them all', async () => {
    const content = sentences(9, 'twice');
    const [stepwise, whole] = [await upload(content), await upload(content)];
    const digestOf = ({ documentId }: IngestDocumentInput) => contentDigest(own.db, documentId);
    for (const name of ingestionSteps) {
      const first = await run(name, stepwise);
      const once = await stateOf(stepwise);
      const second = await run(name, stepwise);
      expect(await stateOf(stepwise), name).deep.equal(once);
      if (name !== 'convertDocument') expect(second, name).deep.equal(first);
    }
    const step = { signal: new AbortController().signal, report: () => undefined };
    for (let times = 0; times < 2; times += 1) {
      expect(await own.container.ingestion.atOnce(whole, step)).include({ isDone: true });
      expect(await digestOf(whole)).equal(await digestOf(stepwise));
    }
    const job = await rowsOf('jobs', whole).first();
    expect(job).include({ status: 'succeeded', stage: 'activate' });
    expect(job.progressDone).equal(job.progressTotal).above(1);
  });

  it('leaves the same state when each step runs twice at the same time', async () => {
    const of = await upload(sentences(200, 'together'));
    for (const name of ingestionSteps) await Promise.all([run(name, of), run(name, of)]);
    const { chunksTotal, chunksEmbedded } = await rowsOf('documentGenerations', of).first();
    expect(chunksTotal).equal(chunksEmbedded).greaterThan(100);
    const indexes = await rowsOf('chunks', of).orderBy('chunkIndex').pluck('chunk_index');
    expect(indexes).deep.equal(Array.from({ length: chunksTotal }, (_, index) => index));
  });

  it('ends the single activity early if a document has many chunks, needs a parser or has no text', async () => {
    const step = { signal: new AbortController().signal, report: () => undefined };
    const atOnce = async (content: string, name = 'note.txt') =>
      own.container.ingestion.atOnce(await upload(content, { name }), step);
    // Each is four bytes and four tokens.
    const long = await atOnce('🜁 '.repeat(600));
    expect(long).include({ isDone: false });
    expect(long.chunksTotal).above(64);
    const page = '<!doctype html><html><body><p>It is a page.</p></body></html>';
    expect(await atOnce(page, 'page.txt')).deep.equal({ converted: null, chunksTotal: null, isDone: false });
    expect(await appErrorCode(atOnce(' \n '))).equal('empty_document');
  });

  it('resumes embedding after the last stored batch', async () => {
    const of = await runAll(await upload(sentences(600, 'resumed')), untilChunked);
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
    await run('embedChunks', of);
    const all = new Map((await embedded()).map((chunk) => [chunk.id, chunk.embeddedAt.getTime()]));
    expect(all.size).greaterThan(kept.length);
    for (const { id, embeddedAt } of kept) expect(all.get(id)).equal(embeddedAt.getTime());
  });

  it('converts equal content once per organization', async () => {
    for (const reused of [false, true]) {
      const of = await runAll(await upload(sentences(3, 'shared')), ['parseDocument']);
      expect(await run('convertDocument', of)).include({ reused });
    }
  });

  it('reuses the pages that OCR has read before, and deletes them after the conversion', async function () {
    needsPdfium(this);
    const folder = await mkdtemp(join(tmpdir(), 'scan-'));
    const drawn = join(folder, 'drawn.pdf');
    await writeFile(drawn, pdfOfLines('Read now'));
    const scan = await scanOf(folder, drawn);
    await rm(folder, { recursive: true });

    const of = await upload(new Uint8Array(pdfFile([[scan], [scan]])), { name: 'scan.pdf' });
    await run('parseDocument', of);
    const unused = { sandbox: createParserSandbox('off'), toolsDir: '', tempDir: '' };
    const { version: converterVersion } = createConverter(unused);
    const lines: OcrLine[] = [['Read before', 10, 100, -20, 10, false, 0]];
    const page = { ...of, pageIndex: 0, lines: JSON.stringify(lines), converterVersion };
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

  it('throws superseded from every step of an older generation, and document_not_found after a deletion', async () => {
    const old = await runAll(await upload(sentences(9, 'superseded')), untilEmbedded);
    const newer = await ingestion.openNext(old);
    for (const name of ingestionSteps) expect(await appErrorCode(run(name, old)), name).equal('superseded');
    await runAll(newer);
    expect(await documentOf(old)).include({ activeGeneration: 2 });
    for (const table of ['documentGenerations', 'chunks', 'chunkVectors']) {
      expect(await generationsOf(table, old), table).deep.equal([2]);
    }
    await own.db('documents').where({ id: old.documentId }).delete();
    for (const name of ingestionSteps) expect(await appErrorCode(run(name, old)), name).equal('document_not_found');
  });

  it('refuses to activate a generation with missing vectors, and embeds these again', async () => {
    const of = await runAll(await upload(sentences(9, 'incomplete')), untilEmbedded);
    const stateOf = async () => {
      const { chunksEmbedded, chunksTotal } = await rowsOf('documentGenerations', of).first();
      return { missing: chunksTotal - chunksEmbedded, active: (await documentOf(of)).activeGeneration };
    };
    const chunk = await rowsOf('chunks', of).first('id');
    await own.db('chunkVectors').where({ chunkId: chunk.id }).delete();
    expect(await appErrorCode(run('activateGeneration', of))).equal('vectors_missing');
    expect(await stateOf()).deep.equal({ missing: 1, active: null });
    await runAll(of, ['embedChunks', 'activateGeneration']);
    expect(await stateOf()).deep.equal({ missing: 0, active: 1 });
  });

  it('deletes an unneeded generation when its run is cancelled, and when the next run begins', async () => {
    const of = await runAll(await upload(sentences(30, 'first')));
    const second = await runAll(await ingestion.openNext(of), untilEmbedded);
    const third = await ingestion.openNext(second);
    await activityEnvironment().run(ingestion.activities.recordCancellation, second);
    expect(await generationsOf('documentGenerations', of)).deep.equal([1, 3]);
    for (const table of ['chunks', 'chunkVectors']) expect(await generationsOf(table, of), table).deep.equal([1]);
    await run('parseDocument', await ingestion.openNext(third));
    expect(await generationsOf('documentGenerations', of)).deep.equal([1, 4]);
  });
});
