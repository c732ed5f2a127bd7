import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { defaultConversionProcessLimits } from '#src/adapters/converter/conversion-limits.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import type { Job } from '#src/modules/jobs/jobs.model.ts';
import type { Member } from '#test/support/client.ts';
import { needsPdfium } from '#test/support/converter-environment.ts';
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

describe('F14: hostile files', function () {
  this.timeout(TIMEOUT_MS);
  let folder: string;
  let own: FaultCase;
  let ingested: Map<PoisonFile, Promise<Ingested>>;
  let peaks: (() => Promise<MemoryPeaks>) | undefined;
  let bob: Member;
  let beside: Promise<number[]>;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'poison-'));
    // Making them keeps this process busy, and with it the API.
    for (const [, name, , make] of files) await writeFile(join(folder, name), make());
    own = await startFaultCase();
    bob = await own.stack.signUp('Bob');
    const worker = await own.startWorker();
    await noteTimes();
    if (process.platform === 'linux') peaks = await watchMemory(worker.pid);
    // As many as are uploaded at once wait for parsers, of which there are fewer.
    const start = sideBySide(UPLOADS_AT_ONCE);
    ingested = new Map(files.map((file) => [file, start(() => ingest(file))]));
    beside = noteTimes();
  });
  after(async () => {
    await Promise.allSettled([...(ingested?.values() ?? []), beside]);
    await own?.close();
    await rm(folder, { recursive: true });
  });

  async function ingest([, name]: PoisonFile): Promise<Ingested> {
    const { stack } = own;
    const file = { name, content: new Uint8Array(await readFile(join(folder, name))) };
    const { id } = fullDocumentSchema.parse((await own.member.upload('/documents', file, 201)).body);
    const job = await ended(`ingest-${id}-1`);
    const run = stack.container.temporal.client.workflow.getHandle(job.id);
    // Temporal records a step after its effect.
    await run.result().catch(() => undefined);
    const starts = ((await run.fetchHistory()).events ?? []).map((event) => event.activityTaskStartedEventAttributes);
    // A step that a busy machine did not hear of in time has no failure of its own.
    const retried = starts.flatMap((start) =>
      start?.lastFailure?.applicationFailureInfo ? [start.lastFailure.message ?? ''] : [],
    );
    const { documentId } = job;
    const chunks = await stack.container.db('chunks').where({ documentId }).orderBy('chunkIndex').pluck('content');
    return { job, retried, text: chunks.join('') };
  }

  const ended = (id: string): Promise<Job> =>
    until(`${id} has ended`, async () =>
      own.stack.container.db<Job>('jobs').where({ id }).whereNotNull('finishedAt').first(),
    );

  /** Milliseconds that a neighbour's notes take, one after the other. */
  async function noteTimes(): Promise<number[]> {
    const times: number[] = [];
    while (times.length < notes) {
      const { jobId } = await uploadText(bob, `Note ${crypto.randomUUID()}: the meeting is moved.`);
      const { createdAt, finishedAt } = await ended(jobId);
      times.push(Number(finishedAt) - Number(createdAt));
    }
    return times.sort((a, b) => a - b);
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

  it('grow no process beyond its memory limit', async function () {
    if (peaks === undefined) return skip(this, 'not Linux');
    await Promise.allSettled(ingested.values());
    const { grownBytes, childBytes } = await peaks();
    note(`the worker grew by ${mebibytes(grownBytes)}, its largest parser had ${mebibytes(childBytes)}`);
    expect(grownBytes).lessThan(256 * MiB);
    expect(childBytes).lessThan(defaultConversionProcessLimits.processMemoryBytes);
  });

  it('do not stop the ingestions of another organization', async () => {
    const times = await beside;
    note(`a note of a neighbour takes ${times[Math.ceil(times.length * 0.95) - 1]} ms beside them (p95)`);
  });

  it('leave every invariant intact', () => expectInvariants(own.stack));
});

const mebibytes = (bytes: number) => `${Math.round(bytes / MiB)} MB`;
