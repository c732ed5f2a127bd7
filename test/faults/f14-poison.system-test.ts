import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { defaultConversionProcessLimits } from '#src/adapters/converter/conversion-limits.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import type { Job } from '#src/modules/jobs/jobs.model.ts';
import type { Member } from '#test/support/client.ts';
import { needsPdfium } from '#test/support/converter-environment.ts';
import { docxFile, docxParagraph } from '#test/support/document-fixtures.ts';
import { expectInvariants, type FaultCase, startFaultCase, uploadText } from '#test/support/fault-case.ts';
import { isFullRun, note } from '#test/support/fault-run.ts';
import { type MemoryPeaks, watchMemory } from '#test/support/memory-peaks.ts';
import { poisonFiles as files, type PoisonFile } from '#test/support/poison/poison-files.ts';
import { sideBySide } from '#test/support/side-by-side.ts';
import { skip } from '#test/support/skip.ts';
import { until } from '#test/support/until.ts';

const MiB = 1024 ** 2;
const TIMEOUT_MS = 600_000;
const UPLOADS_AT_ONCE = 4;
const notes = isFullRun ? 40 : 1;

/** With the failures after which a step was tried again. */
type Ingested = { job: Job; retried: string[]; text: string };

describe('F14: files that mean harm', function () {
  this.timeout(TIMEOUT_MS);
  let folder: string;
  let own: FaultCase;
  let ingested: Map<PoisonFile, Promise<Ingested>>;
  let peaks: () => Promise<MemoryPeaks>;
  let bob: Member;
  let alone: number[];
  let beside: Promise<number[]>;
  let besideSound: Promise<number[]> | undefined;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'poison-'));
    // Making them keeps this process busy, and with it the API.
    for (const [, name, , make] of files) await writeFile(join(folder, name), make());
    own = await startFaultCase();
    bob = await own.stack.signUp('Bob');
    const worker = await own.startWorker();
    await noteTimes(1);
    alone = await noteTimes(notes);
    peaks =
      process.platform === 'linux' ? await watchMemory(worker.pid) : async () => ({ grownBytes: 0, childBytes: 0 });
    // As many as are uploaded at once wait for parsers, of which there are fewer.
    const start = sideBySide(UPLOADS_AT_ONCE);
    ingested = new Map(files.map((file) => [file, start(() => ingest(file))]));
    beside = noteTimes(notes);
    if (isFullRun) besideSound = Promise.allSettled(ingested.values()).then(() => noteTimesBesideSoundFiles());
  });
  after(async () => {
    await Promise.allSettled([...(ingested?.values() ?? []), beside, besideSound]);
    await own?.close();
    await rm(folder, { recursive: true });
  });

  async function upload(name: string, content: Uint8Array<ArrayBuffer>): Promise<Job> {
    const { id } = fullDocumentSchema.parse((await own.member.upload('/documents', { name, content }, 201)).body);
    return ended(`ingest-${id}-1`);
  }

  async function ingest([, name]: PoisonFile): Promise<Ingested> {
    const { stack } = own;
    const job = await upload(name, new Uint8Array(await readFile(join(folder, name))));
    const run = stack.container.temporal.client.workflow.getHandle(job.id);
    // The engine hears of a step after its effect.
    await run.result().catch(() => undefined);
    const starts = ((await run.fetchHistory()).events ?? []).map((event) => event.activityTaskStartedEventAttributes);
    // A step that a busy machine did not hear of in time has no failure of its own.
    const retried = starts.flatMap((start) => (start?.lastFailure?.applicationFailureInfo ? [start.lastFailure] : []));
    const chunks = await stack.container
      .db('chunks')
      .where({ documentId: job.documentId })
      .orderBy('chunkIndex')
      .pluck('content');
    return { job, retried: retried.map(({ message }) => message ?? ''), text: chunks.join('') };
  }

  const ended = (id: string): Promise<Job> =>
    until(`${id} has ended`, async () =>
      own.stack.container.db<Job>('jobs').where({ id }).whereNotNull('finishedAt').first(),
    );

  /** How long a neighbour's notes take, one after the other. */
  async function noteTimes(count: number): Promise<number[]> {
    const times: number[] = [];
    for (let index = 0; index < count; index += 1) {
      const { jobId } = await uploadText(bob, `Note ${crypto.randomUUID()}: the meeting is moved.`);
      const { createdAt, finishedAt } = await ended(jobId);
      times.push(Number(finishedAt) - Number(createdAt));
    }
    return times.sort((a, b) => a - b);
  }

  /** As many at once, in the same format as most that mean harm. */
  async function noteTimesBesideSoundFiles(): Promise<number[]> {
    let isOver = false;
    const others = Array.from({ length: UPLOADS_AT_ONCE }, async () => {
      while (!isOver) {
        const words = Array.from({ length: 300 }, () => docxParagraph(`The meeting ${crypto.randomUUID()} is moved.`));
        expect(await upload('minutes.docx', new Uint8Array(docxFile(words.join(''))))).include({ status: 'succeeded' });
      }
    });
    const times = noteTimes(notes).finally(() => {
      isOver = true;
    });
    await Promise.all([times, ...others]);
    return times;
  }

  for (const file of files) {
    const [what, name, end] = file;
    it(`${what} (${name}): ${end instanceof RegExp ? 'is read' : end}`, async function () {
      if (name.endsWith('.pdf') && end !== 'unsupported_format') needsPdfium(this);
      const { job, retried, text } = (await ingested.get(file)) ?? expect.fail();
      if (end instanceof RegExp) {
        expect(job).include({ status: 'succeeded', attempt: 1 });
        expect(text).match(end);
      } else {
        expect(job).include({ status: 'failed', errorCode: end, attempt: 1 });
        expect(job.errorMessage).not.equal('');
      }
      expect(retried).deep.equal([]);
    });
  }

  it('grow no process beyond its limit', async function () {
    if (process.platform !== 'linux') skip(this, 'not Linux');
    await Promise.allSettled(ingested.values());
    const { grownBytes, childBytes } = await peaks();
    note(`the worker grew by ${mebibytes(grownBytes)}, its largest parser had ${mebibytes(childBytes)}`);
    expect(grownBytes).lessThan(256 * MiB);
    expect(childBytes).lessThan(defaultConversionProcessLimits.processMemoryBytes);
  });

  it('let a neighbour go on', async () => {
    const during = percentile(await beside);
    const others = besideSound === undefined ? '' : `, ${percentile(await besideSound)} ms beside sound Word files`;
    note(`a note of a neighbour takes ${during} ms beside them (p95)${others} and ${percentile(alone)} ms alone`);
  });

  it('leave nothing behind', () => expectInvariants(own.stack));
});

function mebibytes(bytes: number): string {
  return `${Math.round(bytes / MiB)} MB`;
}

function percentile(sorted: number[]): number {
  return sorted[Math.ceil(sorted.length * 0.95) - 1] ?? Number.NaN;
}
