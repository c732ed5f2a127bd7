import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { defaultConversionProcessLimits } from '#src/adapters/converter/conversion-limits.ts';
import type { ErrorCode } from '#src/errors.ts';
import type { Job } from '#src/modules/jobs/jobs.model.ts';
import { anUpload } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import {
  docxFile,
  docxParagraph,
  odfEncryptedManifest,
  odfFile,
  xlsxFile,
  zipFile,
} from '#test/support/document-fixtures.ts';
import { expectInvariants, type FaultCase, startFaultCase, uploadText } from '#test/support/fault-case.ts';
import { isFullRun, note } from '#test/support/fault-run.ts';
import { gifOfFrames, imageClaiming } from '#test/support/images.ts';
import { type MemoryPeaks, watchMemory } from '#test/support/memory-peaks.ts';
import { sideBySide } from '#test/support/side-by-side.ts';
import { skip } from '#test/support/skip.ts';
import { until } from '#test/support/until.ts';
import { megabytes } from './memory-of.ts';

const MiB = 1024 ** 2;
const TIMEOUT_MS = 600_000;
const UPLOADS_AT_ONCE = 4;
const notes = isFullRun ? 40 : 1;
const words = docxParagraph('words');
const entityXml = (list: string[], text: string) =>
  `<?xml version="1.0"?><!DOCTYPE l [${list.join('')}]><l>${text}</l>`;
const entities = Array.from({ length: 9 }, (_, n) => `<!ENTITY l${n + 1} "${`&l${n};`.repeat(10)}">`);
/** Ten to the ninth laughs of ten entities. */
const laughing = entityXml(['<!ENTITY l0 "ha">', ...entities], '&l9;');
/** The file that a reader of XML would show, if it looked at what a document type names. */
const fetching = entityXml(['<!ENTITY l SYSTEM "file:///etc/passwd">'], '&l;');
const docx = (xml: string, encoding: BufferEncoding = 'utf8') =>
  docxFile('', { 'word/document.xml': Buffer.from(xml, encoding) });
const odt = (parts: Record<string, string>) => odfFile('text', '', { parts });
const locked = { 'META-INF/manifest.xml': odfEncryptedManifest };
const climbing = { '../../../tmp/a.xml': 'x' };
const program = Buffer.from(`4d5a9000${'00'.repeat(2_000)}`, 'hex');
const notUtf8 = Buffer.from('words \xc3(\xf0(\xff more words', 'latin1');

/**
 * What a file does, its name, and how its ingestion ends: with a code, or as a text like this. The converter by itself is
 * asked about others in test/activities/converter/hostile-files.test.ts.
 */
type PoisonFile = [what: string, fileName: string, end: ErrorCode | RegExp, make: () => string | Buffer];

const files: PoisonFile[] = [
  ['a program that is named .pdf', 'program.pdf', 'unsupported_format', () => program],
  ['a Word file under another name', 'word.xlsx', /^words/, () => docxFile(words)],
  ['a locked OpenDocument text', 'locked.odt', 'encrypted_document', () => odt(locked)],
  ['overlapping zip entries', 'overlap.docx', 'too_large', overlappingZip],
  ['a zip entry that leads out of its folder', 'climb.docx', 'corrupt_document', () => docxFile(words, climbing)],
  ['a zip entry with an absolute name', 'root.docx', 'corrupt_document', () => docxFile(words, { '/tmp/a.xml': 'x' })],
  ['an XML entity that names a local file, in a Word file', 'fetch.docx', 'corrupt_document', () => docx(fetching)],
  ['an XML entity that names a local file, in a workbook', 'fetch.xlsx', 'corrupt_document', () => xlsxFile(fetching)],
  ['an XML entity that names a local file', 'fetch.odt', 'corrupt_document', () => odt({ 'content.xml': fetching })],
  [
    'an XML entity that names a local file',
    'fetch.xml',
    /^```xml\n.*<!ENTITY l SYSTEM.*&l;<\/l>\n```$/,
    () => fetching,
  ],
  ['a billion laughs (nested XML entities) in a workbook', 'laugh.xlsx', 'corrupt_document', () => xlsxFile(laughing)],
  ['a billion laughs in an OpenDocument text', 'laugh.odt', 'corrupt_document', () => odt({ 'content.xml': laughing })],
  ['a billion laughs in a Word file in UTF-16', 'utf16.docx', 'corrupt_document', () => docx(laughing, 'utf16le')],
  ['a billion laughs in a drawing', 'laugh.svg', /&l9;/, () => laughing],
  ['a million nested groups', 'deep.rtf', 'corrupt_document', () => `{\\rtf1 ${'{'.repeat(1_000_000)}words`],
  ['300 nested mails', 'deep.eml', /^# 299/, () => nestedMail(300)],
  ['a table row of 50 MB', 'line.csv', 'too_large', () => 'x,'.repeat(25 * MiB)],
  ['a text with bytes that are not UTF-8', 'bytes.txt', /^words .* more words$/, () => notUtf8],
  ['a text with invisible characters', 'bidi.txt', /^safe text$/, () => 'sa\u202efe te\u200bxt\u2060\ufeff\u{e0041}'],
  ['an image of 3,600 megapixels', 'huge.png', 'too_large', () => imageClaiming('png', 60_000, 60_000)],
  ['an image of 100,000 frames', 'frames.gif', 'empty_document', () => gifOfFrames(100_000)],
  ['a sheet of a million million cells', 'repeats.ods', 'too_large', odsOfRepeats],
  ['a claim that 2 GB of binary data follow', 'claim.rtf', 'corrupt_document', () => '{\\rtf1 words\\bin2000000000 x}'],
  ['a table cell that spans two billion columns', 'span.docx', /^\| words \|/, () => docxFile(wideTable())],
];

/** With the failures after which a step was tried again. */
type Ingested = { job: Job; retried: string[]; text: string };

describe('F14: the ingestion of hostile files', function () {
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
    const job = await ended(`ingest-${(await anUpload(own.member, file)).id}-1`);
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
    it(`${end instanceof RegExp ? 'succeeds' : `fails with ${end}`} for ${what} (${name})`, async () => {
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

  it('lets no process grow beyond its memory limit', async function () {
    if (peaks === undefined) return skip(this, 'not Linux');
    await Promise.allSettled(ingested.values());
    const { grownBytes, childBytes } = await peaks();
    note(`the worker grew by ${megabytes(grownBytes)}, its largest parser had ${megabytes(childBytes)}`);
    expect(grownBytes).lessThan(256 * MiB);
    expect(childBytes).lessThan(defaultConversionProcessLimits.processMemoryBytes);
  });

  it('does not stop the ingestions of another organization', async () => {
    const times = await beside;
    note(`a note of a neighbour takes ${times[Math.ceil(times.length * 0.95) - 1]} ms beside them (p95)`);
  });

  it('violates no invariant', () => expectInvariants(own.stack));
});

/** A Word file of a thousand entries, all of which are the same bytes: each is modest, and together they are a bomb. */
function overlappingZip(): Buffer {
  const entryCount = 1_000;
  const name = 'word/document.xml';
  const zip = zipFile({ [name]: randomBytes(125_000).toString('hex') });
  const start = zip.indexOf(Buffer.from('PK\x01\x02'));
  const entry = zip.subarray(start, start + 46 + name.length);
  const entries = Array.from({ length: entryCount }, (_, index) => {
    const copy = Buffer.from(entry);
    if (index > 0) copy.write(`word/part-${String(index).padStart(3, '0')}.xml`, 46);
    return copy;
  });
  const end = Buffer.from(zip.subarray(start + entry.length));
  end.writeUInt16LE(entryCount, 8);
  end.writeUInt16LE(entryCount, 10);
  end.writeUInt32LE(entryCount * entry.length, 12);
  return Buffer.concat([zip.subarray(0, start), ...entries, end]);
}

/** A table whose one cell says that it is two billion columns wide. */
function wideTable(): string {
  const cell = (properties: string) => `<w:tr><w:tc>${properties}${words}</w:tc></w:tr>`;
  return `<w:tbl>${cell('<w:tcPr><w:gridSpan w:val="2000000000"/></w:tcPr>')}${cell('')}</w:tbl>`;
}

/** Rows and columns that are said to be repeated a thousand million times. */
function odsOfRepeats(): Buffer {
  const times = 1_000_000_000;
  const content = 'office:value-type="string"><text:p>x</text:p>';
  const cell = `<table:table-cell table:number-columns-repeated="${times}" ${content}</table:table-cell>`;
  const row = `<table:table-row table:number-rows-repeated="${times}">${cell}</table:table-row>`;
  return odfFile('spreadsheet', `<table:table table:name="S">${row}</table:table>`);
}

function nestedMail(depth: number): string {
  const from = 'From: Ann <ann@example.org>\nMIME-Version: 1.0\nSubject:';
  let mail = `${from} innermost\n\nwords\n`;
  for (let level = 0; level < depth; level += 1) {
    const part = `--b${level}\nContent-Type: message/rfc822\n\n${mail}\n--b${level}--\n`;
    mail = `${from} ${level}\nContent-Type: multipart/mixed; boundary="b${level}"\n\n${part}`;
  }
  return mail;
}
