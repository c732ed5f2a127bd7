import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { ErrorCode } from '#src/errors.ts';
import { compoundFile } from '#test/support/compound-file.ts';
import { docxFile, docxParagraph, pdfFile } from '#test/support/document-fixtures.ts';
import { odfEncryptedManifest, odfFile, xlsxFile } from '#test/support/office-fixtures.ts';
import { overlappingZip } from './archives.ts';
import { gifOfFrames, imageClaiming } from './images.ts';
import * as office from './office-files.ts';
import * as pdf from './pdfs.ts';

const MiB = 1024 ** 2;
const MILLION = 1_000_000;

/** A file that means harm, and how its ingestion ends: with a code, or as a text like this. */
export type PoisonFile = [what: string, fileName: string, end: ErrorCode | RegExp, make: () => string | Buffer];

const oldWord = readFileSync(new URL('../files/old-word.doc', import.meta.url));
const words = docxParagraph('words');
const wordFile = (parts = {}) => docxFile(words, parts);
const onePage = [{ text: 'words', x: 50, y: 700 }];
const pages = () => pdfFile(Array<typeof onePage>(20).fill(onePage));
const laughing = office.laughingXml;
const odfLock = { 'META-INF/manifest.xml': odfEncryptedManifest };
const half = (file: Buffer) => file.subarray(0, file.length / 2);

const brokenFiles: PoisonFile[] = [
  ['spaces that nobody sees', 'spaces.txt', 'empty_document', () => '\u202e\u200b\u2060\ufeff'],
  ['noise', 'noise.docx', 'unsupported_format', () => Buffer.concat([Buffer.from([0, 1]), randomBytes(4_096)])],
  ['a program', 'program.pdf', 'unsupported_format', () => Buffer.from(`4d5a9000${'00'.repeat(2_000)}`, 'hex')],
  ['a PDF under another name', 'pdf.docx', /^words/, () => pages()],
  ['a Word file under another name', 'word.xlsx', /^words/, () => wordFile()],
  ['half an old Word file', 'half.doc', 'corrupt_document', () => half(oldWord)],
  ['half an old workbook', 'half.xls', 'corrupt_document', () => half(compoundFile({ Workbook: randomBytes(80_000) }))],
  ['a locked old Word file', 'locked.doc', 'encrypted_document', () => office.lockedDoc(oldWord)],
  ['a locked old workbook', 'locked.xls', 'encrypted_document', office.lockedXls],
  ['a locked OpenDocument text', 'locked.odt', 'encrypted_document', () => odfFile('text', '', { parts: odfLock })],
];

const archives: PoisonFile[] = [
  ['entries over each other', 'overlap.docx', 'too_large', () => overlappingZip()],
  ['a name that climbs', 'climb.docx', 'corrupt_document', () => wordFile({ '../../../tmp/a.xml': 'x' })],
  ['a name from the root', 'root.docx', 'corrupt_document', () => wordFile({ '/tmp/a.xml': 'x' })],
];

const entities: PoisonFile[] = [
  ['entities of files in Word', 'fetch.docx', 'corrupt_document', () => office.docxWith(office.fetchingXml)],
  ['entities of files in a workbook', 'fetch.xlsx', 'corrupt_document', () => xlsxFile(office.fetchingXml)],
  ['entities of files in a text', 'fetch.odt', 'corrupt_document', () => office.odtWith(office.fetchingXml)],
  ['entities of files in XML', 'fetch.xml', /^```xml\n.*\[<!ENTITY l SYSTEM.*&l;<\/l>\n```$/, () => office.fetchingXml],
  ['a billion laughs in Word', 'laugh.docx', 'corrupt_document', () => office.docxWith(laughing)],
  ['a billion laughs in a workbook', 'laugh.xlsx', 'corrupt_document', () => xlsxFile(laughing)],
  ['a billion laughs in a text', 'laugh.odt', 'corrupt_document', () => office.odtWith(laughing)],
  ['a billion laughs in UTF-16', 'utf16.docx', 'corrupt_document', () => office.docxWith(laughing, 'utf16le')],
  ['a billion laughs in a drawing', 'laugh.svg', /&l9;/, () => laughing],
];

const depths: PoisonFile[] = [
  ['a million groups deep', 'deep.rtf', 'corrupt_document', () => `{\\rtf1 ${'{'.repeat(MILLION)}words`],
  ['300 mails deep', 'deep.eml', /^# 299/, () => office.nestedMail(300)],
];

const lines: PoisonFile[] = [
  ['a record of 50 MB', 'line.csv', 'too_large', () => 'x,'.repeat(25 * MiB)],
  ['a value of 50 MB', 'line.json', 'too_large', () => `"${'x'.repeat(50 * MiB)}"`],
  ['no UTF-8', 'bytes.txt', /^words .* more words$/, () => Buffer.from('words \xc3(\xf0(\xff more words', 'latin1')],
  [
    'letters that nobody sees',
    'bidi.txt',
    /^safe text, a tag$/,
    () => 'sa\u202efe te\u200bxt,\u2060 \ufeffa tag\u{e0041}',
  ],
];

const pdfsAndImages: PoisonFile[] = [
  ['a million pages', 'pages.pdf', 'too_large', () => pdf.pdfOfOnePageOften(MILLION)],
  ['pages in a circle', 'circle.pdf', 'corrupt_document', pdf.pdfOfCircle],
  ['3,600 megapixels in PNG', 'huge.png', 'too_large', () => imageClaiming('png', 60_000, 60_000)],
  ['3,600 megapixels in GIF', 'huge.gif', 'too_large', () => imageClaiming('gif', 60_000, 60_000)],
  ['3,600 megapixels in JPEG', 'huge.jpg', 'too_large', () => imageClaiming('jpg', 60_000, 60_000)],
  ['100,000 frames', 'frames.gif', 'empty_document', () => gifOfFrames(100_000)],
];

const claims: PoisonFile[] = [
  ['a million million cells', 'repeats.ods', 'too_large', office.odsOfRepeats],
  ['a claim of 2 GB', 'claim.rtf', 'corrupt_document', () => '{\\rtf1 words\\bin2000000000 x}'],
  ['a cell over all columns', 'span.docx', /^\| words \|/, () => docxFile(office.wideTable(2_000_000_000))],
];

export const poisonFiles = [brokenFiles, archives, entities, depths, lines, pdfsAndImages, claims].flat();
