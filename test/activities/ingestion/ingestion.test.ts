import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { MockActivityEnvironment } from '@temporalio/testing';
import { expect } from 'chai';
import type { Knex } from 'knex';
import { createIngestionActivities, type IngestionActivities } from '#activities/ingestion.ts';
import { createConverter } from '#src/adapters/converter/converter.ts';
import { createParserSandbox } from '#src/adapters/parser-sandbox.ts';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import { ingestWorkflowId } from '#src/contracts/workflow-ids.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { createGenerationsRepository } from '#src/modules/ingestion/generations.repository.ts';
import type { OcrLine } from '#src/ports/documents.ts';
import { activityEnvironment, runActivity } from '#test/support/activity-environment.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import type { Member } from '#test/support/client.ts';
import { needsPdfium } from '#test/support/converter-environment.ts';
import { pdfFile } from '#test/support/document-fixtures.ts';
import { pdfOfLines, scanOf } from '#test/support/picture-fixtures.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

const stepNames = [
  'parseDocument',
  'convertDocument',
  'embedWindows',
  'chunkDocument',
  'embedChunks',
  'activateGeneration',
] as const;
const untilChunked = stepNames.slice(0, 4);
const untilEmbedded = stepNames.slice(0, 5);

describe('ingestion activities', () => {
  let own: Stack;
  let ada: Member;
  let db: Knex;
  let activities: IngestionActivities;

  before(async () => {
    // Without workers, which would run the steps, too.
    own = await startStack({}, { workers: false });
    ada = await own.signUp();
    db = own.container.db;
    activities = createIngestionActivities(own.container);
  });
  after(() => own.close());

  const sentences = (count: number, word = 'number') =>
    Array.from({ length: count }, (_, index) => `Sentence ${word} ${index} says something.`).join(' ');

  async function upload(
    content: string | Uint8Array<ArrayBuffer>,
    name = 'note.txt',
    options = {},
  ): Promise<IngestDocumentInput> {
    const fields = { target_tokens: '12', overlap_tokens: '0', ...options };
    const { body } = await ada.upload('/documents', { name, content }, 201, { fields });
    return { orgId: ada.orgId, documentId: fullDocumentSchema.parse(body).id, generation: 1 };
  }

  /** Opens the next generation without starting a run. */
  async function openNextGeneration(of: IngestDocumentInput): Promise<IngestDocumentInput> {
    const next = { ...of, generation: of.generation + 1 };
    const jobId = ingestWorkflowId(next.documentId, next.generation);
    await createGenerationsRepository(db).open({ ...next, jobId }, { isRedo: false });
    return next;
  }

  // Failures are expected here, and the library would log each of them.
  const run = (name: (typeof stepNames)[number], of: IngestDocumentInput, environment?: MockActivityEnvironment) =>
    environment === undefined
      ? runActivity<IngestDocumentInput, unknown>(activities[name], of)
      : environment.run<[IngestDocumentInput], unknown, IngestionActivities[typeof name]>(activities[name], of);

  async function runAll(of: IngestDocumentInput): Promise<void> {
    for (const name of stepNames) await run(name, of);
  }

  /** Everything an ingestion stores, except timestamps. */
  async function state({ documentId }: IngestDocumentInput): Promise<unknown> {
    const { rows } = await db.raw<{ rows: unknown[] }>(
      `select d.source_format, d.generation, d.active_generation,
              (select json_agg(to_jsonb(g) - 'created_at' - 'chunked_at' - 'activated_at' order by generation)
               from document_generations g where g.document_id = d.id) as generations,
              (select json_agg(to_jsonb(c) - 'embedded_at' order by generation, chunk_index)
               from chunks c where c.document_id = d.id) as chunks,
              (select json_agg(t order by t.generation, t.term, t.block)
               from document_terms t where t.document_id = d.id) as terms,
              (select json_agg(v order by v.chunk_id) from chunk_vectors v where v.document_id = d.id) as vectors
       from documents d where d.id = :documentId`,
      { documentId },
    );
    return rows;
  }

  it('leaves the same state when each step runs twice', async () => {
    const of = await upload(sentences(9, 'twice'));
    for (const name of stepNames) {
      const first = await run(name, of);
      const once = await state(of);
      const second = await run(name, of);
      expect(await state(of), name).deep.equal(once);
      if (name !== 'convertDocument') expect(second, name).deep.equal(first);
    }
  });

  it('leaves the same state when each step runs twice at the same time', async () => {
    const of = await upload(sentences(200, 'together'));
    for (const name of stepNames) await Promise.all([run(name, of), run(name, of)]);
    const [generation] = await db('documentGenerations').where({ documentId: of.documentId });
    expect(generation.chunksTotal).greaterThan(100);
    expect(generation.chunksEmbedded).equal(generation.chunksTotal);
    const chunks = await db('chunks').where({ documentId: of.documentId }).orderBy('chunkIndex').select('chunkIndex');
    expect(chunks.map((chunk) => chunk.chunkIndex)).deep.equal(
      Array.from({ length: generation.chunksTotal }, (_, index) => index),
    );
  });

  const contentsOf = ({ documentId }: IngestDocumentInput): Promise<string[]> =>
    db('chunks').where({ documentId }).orderBy('chunkIndex').pluck('content');

  it('chunks a document semantically when its configuration says so', async () => {
    const loans = [
      'The bank grants a loan against a collateral. ',
      'The interest rate of the loan is fixed for five years. ',
      'A late payment of the interest costs a fee. ',
      'The bank may sell the collateral when the loan is not repaid. ',
      'The customer may repay the loan early without a fee. ',
    ];
    const penguins = [
      'Penguins live on the ice of Antarctica. ',
      'A penguin lays one egg in winter. ',
      'The father keeps the egg warm on his feet. ',
      'Penguin chicks grow feathers that keep the water out. ',
      'Penguins swim and catch fish in the cold sea.',
    ];
    const of = await upload([...loans, ...penguins].join(''), 'subjects.txt', {
      chunking_method: 'semantic',
      target_tokens: '120',
    });
    for (const name of untilChunked) await run(name, of);
    const [first = '', second = '', ...others] = await contentsOf(of);
    expect(others).deep.equal([]);
    // Each sentence is compared together with its neighbours, which may move the boundary by one sentence.
    expect(first).include(loans.slice(0, 4).join('')).not.include('enguin');
    expect(second).include(penguins.join(''));
  });

  it('chunks by tokens when a document has too few sentences for semantic chunking', async () => {
    const content = sentences(5, 'few');
    const [semantic, token] = [
      await upload(content, 'semantic.txt', { chunking_method: 'semantic' }),
      await upload(content, 'token.txt'),
    ];
    for (const document of [semantic, token]) for (const name of untilChunked) await run(name, document);
    expect(await contentsOf(semantic))
      .length.greaterThan(1)
      .and.deep.equal(await contentsOf(token));
  });

  it('resumes embedding after the last stored batch', async () => {
    const of = await upload(sentences(600, 'resumed'));
    for (const name of untilChunked) await run(name, of);

    const interrupted = activityEnvironment();
    // The first heartbeats may come before a batch is stored.
    interrupted.on('heartbeat', (details: unknown) => {
      if (details !== undefined) interrupted.cancel('CANCELLED');
    });
    const fault = await run('embedChunks', of, interrupted).catch((error: unknown) => error);
    expect(fault).instanceOf(Error).property('name', 'CancelledFailure');

    const embedded = () => db('chunks').where({ documentId: of.documentId }).whereNotNull('embeddedAt');
    const kept = await embedded().select('id', 'embeddedAt');
    expect(kept).length.within(256, 512);
    await run('embedChunks', of);
    const all = new Map((await embedded()).map((chunk) => [chunk.id, chunk.embeddedAt.getTime()]));
    expect(all.size).greaterThan(kept.length);
    for (const { id, embeddedAt } of kept) expect(all.get(id)).equal(embeddedAt.getTime());
  });

  it('converts equal content once per organization', async () => {
    const content = sentences(3, 'shared');
    const [first, second] = [await upload(content), await upload(content, 'copy.txt')];
    await run('parseDocument', first);
    await run('parseDocument', second);
    expect(await run('convertDocument', first)).property('reused', false);
    expect(await run('convertDocument', second)).property('reused', true);
  });

  it('reuses the pages that OCR has read before, and deletes them after the conversion', async function () {
    needsPdfium(this);
    const folder = await mkdtemp(join(tmpdir(), 'scan-'));
    const drawn = join(folder, 'drawn.pdf');
    await writeFile(drawn, pdfOfLines('Read now'));
    const scan = await scanOf(folder, drawn);
    await rm(folder, { recursive: true });

    const of = await upload(new Uint8Array(pdfFile([[scan], [scan]])), 'scan.pdf');
    await run('parseDocument', of);
    const { version: converterVersion } = createConverter({
      sandbox: createParserSandbox('off'),
      toolsDir: '',
      tempDir: '',
    });
    const lines: OcrLine[] = [['Read before', 10, 100, -20, 10, false, 0]];
    const page = { ...of, pageIndex: 0, lines: JSON.stringify(lines), converterVersion };
    await db('recognizedPages').insert([page, { ...page, pageIndex: 1, converterVersion: 'older' }]);
    expect(await run('convertDocument', of))
      .include({ pageCount: 2, reused: false })
      .and.not.have.property('pagesLeft');
    const job = await db('jobs').where({ documentId: of.documentId }).first();
    expect(job).include({ progressDone: 2, progressTotal: 2, progressUnit: 'pages' });
    expect(await db('conversions').where({ orgId: of.orgId, body: 'Read before\n\nRead now' })).length(1);

    const other = await upload(new Uint8Array(pdfFile([[scan]])), 'scan.pdf');
    for (const name of untilChunked) await run(name, other);
    expect(await contentsOf(other)).deep.equal(['Read now']);
    expect(await db('recognizedPages')).deep.equal([]);
  });

  it('deletes the chunks and vectors of the older generation on activation', async () => {
    const first = await upload(sentences(9, 'replaced'));
    await runAll(first);
    const second = await openNextGeneration(first);
    await runAll(second);
    for (const table of ['documentGenerations', 'chunks', 'chunkVectors']) {
      expect(new Set(await db(table).where({ documentId: first.documentId }).pluck('generation')), table).deep.equal(
        new Set([2]),
      );
    }
  });

  it('throws superseded from every step once a newer generation was requested', async () => {
    const old = await upload(sentences(9, 'superseded'));
    for (const name of untilEmbedded) await run(name, old);
    const newer = await openNextGeneration(old);
    for (const name of stepNames) expect(await appErrorCode(run(name, old)), name).equal('superseded');
    await runAll(newer);
    const [document] = await db('documents').where({ id: old.documentId });
    expect(document.activeGeneration).equal(2);
  });

  it('throws document_not_found from every step once the document is deleted', async () => {
    const of = await upload(sentences(3, 'deleted'));
    await db('documents').where({ id: of.documentId }).delete();
    for (const name of stepNames) expect(await appErrorCode(run(name, of)), name).equal('document_not_found');
  });

  it('refuses to activate a generation with missing vectors, and embeds these again', async () => {
    const of = await upload(sentences(9, 'incomplete'));
    for (const name of untilEmbedded) await run(name, of);
    await db.raw(
      'delete from chunk_vectors where chunk_id = (select min(id::text)::uuid from chunks where document_id = ?)',
      [of.documentId],
    );
    const activeGeneration = async () => (await db('documents').where({ id: of.documentId }).first()).activeGeneration;
    const embedded = async () =>
      (await db('documentGenerations').where({ documentId: of.documentId }).first()).chunksEmbedded;
    const all = await embedded();

    expect(await appErrorCode(run('activateGeneration', of))).equal('vectors_missing');
    expect(await activeGeneration()).equal(null);
    expect(await embedded()).equal(all - 1);
    await run('embedChunks', of);
    await run('activateGeneration', of);
    expect(await activeGeneration()).equal(1);
    expect(await embedded()).equal(all);
  });

  it('leaves no vectors of a generation that was deleted during embedding', async () => {
    const of = await upload(sentences(400, 'collected'));
    for (const name of untilChunked) await run(name, of);
    const overtaken = activityEnvironment();
    const collected = new Promise<void>((resolve, reject) => {
      overtaken.once('heartbeat', () => {
        db('documentGenerations')
          .where({ documentId: of.documentId })
          .delete()
          .then(() => resolve(), reject);
      });
    });
    expect(await appErrorCode(run('embedChunks', of, overtaken))).equal('superseded');
    await collected;
    expect(await db('chunkVectors').where({ documentId: of.documentId })).deep.equal([]);
  });

  it('deletes an unneeded generation when its run is cancelled, and when the next run begins', async () => {
    const of = await upload(sentences(30, 'first'));
    await runAll(of);
    const second = await openNextGeneration(of);
    for (const name of untilEmbedded) await run(name, second);
    const third = await openNextGeneration(second);
    const generations = (table: string) =>
      db(table).where({ documentId: of.documentId }).distinct('generation').orderBy('generation').pluck('generation');

    await activityEnvironment().run(activities.recordCancellation, second);
    expect(await generations('documentGenerations')).deep.equal([1, 3]);
    expect(await generations('chunks')).deep.equal([1]);
    expect(await generations('chunkVectors')).deep.equal([1]);

    const fourth = await openNextGeneration(third);
    await run('parseDocument', fourth);
    expect(await generations('documentGenerations')).deep.equal([1, 4]);
  });
});
