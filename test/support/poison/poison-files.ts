import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { ErrorCode } from '#src/errors.ts';
import { compoundFile } from '#test/support/compound-file.ts';
import { docxFile, docxParagraph, pdfFile, pdfPasswordTrailer } from '#test/support/document-fixtures.ts';
import { odfEncryptedManifest, odfFile } from '#test/support/office-fixtures.ts';
import { nestedZip, overlappingZip } from './archives.ts';
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
const pages = (trailer = '') => pdfFile(Array<typeof onePage>(20).fill(onePage), trailer);
const half = (file: Buffer) => file.subarray(0, file.length / 2);

const brokenFiles: PoisonFile[] = [
  ['spaces that nobody sees', 'spaces.txt', 'empty_document', () => '\u202e\u200b\u2060\ufeff'],
  ['noise', 'noise.docx', 'unsupported_format', () => Buffer.concat([Buffer.from([0, 1]), randomBytes(4_096)])],
  ['a program', 'program.pdf', 'unsupported_format', () => Buffer.from(`4d5a9000${'00'.repeat(2_000)}`, 'hex')],
  ['a PDF under another name', 'pdf.docx', /^words/, () => pages()],
  ['a Word file under another name', 'word.xlsx', /^words/, () => wordFile()],
  ['a mark and nothing more', 'mark.pdf', 'corrupt_document', () => '%PDF-1.7\n'],
  ['half a PDF', 'half.pdf', 'corrupt_document', () => half(pages())],
  ['half a Word file', 'half.docx', 'corrupt_document', () => half(wordFile())],
  ['half a workbook', 'half.xlsx', 'corrupt_document', () => half(office.farCell)],
  ['half a presentation', 'half.pptx', 'corrupt_document', () => half(office.pptxOfSlides(10))],
  ['half an old Word file', 'half.doc', 'corrupt_document', () => half(oldWord)],
  ['half an old workbook', 'half.xls', 'corrupt_document', () => half(compoundFile({ Workbook: randomBytes(80_000) }))],
  ['a locked PDF', 'locked.pdf', 'encrypted_document', () => pages(pdfPasswordTrailer)],
  ['a locked Office file', 'locked.docx', 'encrypted_document', () => compoundFile({ EncryptedPackage: 'x' })],
  ['a locked old Word file', 'locked.doc', 'encrypted_document', () => office.lockedDoc(oldWord)],
  ['a locked old workbook', 'locked.xls', 'encrypted_document', office.lockedXls],
  [
    'a locked OpenDocument text',
    'locked.odt',
    'encrypted_document',
    () => odfFile('text', '', { parts: { 'META-INF/manifest.xml': odfEncryptedManifest } }),
  ],
];

const archives: PoisonFile[] = [
  ['archives in archives', '42.zip', 'unsupported_format', () => nestedZip()],
  ['archives in a document', '42.docx', /^words$/, () => wordFile({ 'word/inner.zip': nestedZip() })],
  ['entries over each other', 'overlap.docx', 'too_large', () => overlappingZip()],
  ['blanks', 'blanks.docx', 'too_large', () => wordFile({ 'word/media/a.bin': Buffer.alloc(50 * MiB) })],
  ['2,000 parts', 'parts.docx', 'too_large', () => wordFile(office.emptyParts(2_000))],
  ['a name that climbs', 'climb.docx', 'corrupt_document', () => wordFile({ '../../../tmp/a.xml': 'x' })],
  ['a name from the root', 'root.docx', 'corrupt_document', () => wordFile({ '/tmp/a.xml': 'x' })],
];

const entities: PoisonFile[] = [
  ['entities of files in Word', 'fetch.docx', 'corrupt_document', () => office.docxWith(office.fetchingXml)],
  ['entities of files in a workbook', 'fetch.xlsx', 'corrupt_document', () => office.xlsxWith(office.fetchingXml)],
  ['entities of files in a text', 'fetch.odt', 'corrupt_document', () => office.odtWith(office.fetchingXml)],
  ['entities of files in XML', 'fetch.xml', /^```xml\n.*\[<!ENTITY l SYSTEM.*&l;<\/l>\n```$/, () => office.fetchingXml],
  ['a billion laughs in Word', 'laugh.docx', 'corrupt_document', () => office.docxWith(office.laughingXml)],
  ['a billion laughs in a workbook', 'laugh.xlsx', 'corrupt_document', () => office.xlsxWith(office.laughingXml)],
  ['a billion laughs in a text', 'laugh.odt', 'corrupt_document', () => office.odtWith(office.laughingXml)],
  [
    'a billion laughs in UTF-16',
    'utf16.docx',
    'corrupt_document',
    () => office.docxWith(office.laughingXml, 'utf16le'),
  ],
  ['a billion laughs in a drawing', 'laugh.svg', /&l9;/, () => office.laughingXml],
];

const depths: PoisonFile[] = [
  ['a million elements deep', 'deep.html', 'corrupt_document', () => `<html><body>${'<div>'.repeat(MILLION)}words`],
  ['a million arrays deep', 'deep.json', 'corrupt_document', () => '['.repeat(MILLION) + ']'.repeat(MILLION)],
  ['a million groups deep', 'deep.rtf', 'corrupt_document', () => `{\\rtf1 ${'{'.repeat(MILLION)}words`],
  ['a hundred thousand tables deep', 'deep.docx', 'corrupt_document', () => office.docxOfTables(100_000)],
  ['300 mails deep', 'deep.eml', /^# 299/, () => office.nestedMail(300)],
];

const lines: PoisonFile[] = [
  ['a line of 50 MB', 'line.txt', 'too_large', () => 'x'.repeat(50 * MiB)],
  ['a record of 50 MB', 'line.csv', 'too_large', () => 'x,'.repeat(25 * MiB)],
  ['a value of 50 MB', 'line.json', 'too_large', () => `"${'x'.repeat(50 * MiB)}"`],
  [
    'no UTF-8',
    'bytes.txt',
    /^words .* more words$/,
    () => Buffer.from('words \xc3(\xf0(\xff\xfe more words', 'latin1'),
  ],
  [
    'letters that nobody sees',
    'bidi.txt',
    /^safe text, and a tag$/,
    () => 'sa\u202efe\u202c te\u200bxt,\u2060 \ufeffand a tag\u{e0041}\u{e007f}',
  ],
];

const pdfs: PoisonFile[] = [
  ['a page of four gigabytes', 'bomb.pdf', 'too_large', () => pdf.pdfOfPackedZeros(4_096)],
  ['a million pages', 'pages.pdf', 'too_large', () => pdf.pdfOfOnePageOften(MILLION)],
  ['pages in a circle', 'circle.pdf', 'corrupt_document', pdf.pdfOfCircle],
  ['a tree of a single branch', 'branch.pdf', 'corrupt_document', () => pdf.pdfOfDeepTree(100_000)],
];

const images: PoisonFile[] = [
  ['3,600 megapixels in PNG', 'huge.png', 'too_large', () => imageClaiming('png', 60_000, 60_000)],
  ['3,600 megapixels in GIF', 'huge.gif', 'too_large', () => imageClaiming('gif', 60_000, 60_000)],
  ['3,600 megapixels in BMP', 'huge.bmp', 'too_large', () => imageClaiming('bmp', 60_000, 60_000)],
  ['3,600 megapixels in JPEG', 'huge.jpg', 'too_large', () => imageClaiming('jpg', 60_000, 60_000)],
  ['3,600 megapixels in TIFF', 'huge.tif', 'too_large', () => imageClaiming('tiff', 60_000, 60_000)],
  ['256 megapixels in WebP', 'huge.webp', 'too_large', () => imageClaiming('webp', 16_000, 16_000)],
  ['100,000 frames', 'frames.gif', 'empty_document', () => gifOfFrames(100_000)],
];

const claims: PoisonFile[] = [
  ['a cell in the last corner', 'far.xlsx', /^## Far\n\nOnly the first 50,000 rows.*\n\nnear$/, () => office.farCell],
  ['a million million cells', 'repeats.ods', 'corrupt_document', office.odsOfRepeats],
  ['a hundred thousand slides', 'slides.pptx', /words/, () => office.pptxOfSlides(100_000)],
  ['a chapter again and again', 'circle.epub', /^(words\s*){50}$/, () => office.epubOfCircle(100_000)],
  ['sectors in a circle', 'circle.msg', 'corrupt_document', () => office.circularCompoundFile(mailStreams)],
  ['sectors of a text in a circle', 'circle.doc', 'corrupt_document', () => office.circularCompoundFile(textStreams)],
  ['a claim of 2 GB', 'claim.rtf', 'corrupt_document', () => '{\\rtf1 words\\bin2000000000 x}'],
  ['a cell over all columns', 'span.docx', /^\| words \|/, () => docxFile(office.wideTable(2_000_000_000))],
];

const mailStreams = {
  '__properties_version1.0': Buffer.alloc(8_000),
  '__substg1.0_1000001F': Buffer.alloc(50_000, 'w\0'),
};
const textStreams = { WordDocument: Buffer.alloc(8_000), '1Table': Buffer.alloc(8_000) };

export const poisonFiles: readonly PoisonFile[] = [
  ...[brokenFiles, archives, entities, depths, lines, pdfs, images, claims].flat(),
];

/** What takes long to be refused, or is like another one above. */
export const slowPoisonFiles: readonly PoisonFile[] = [
  ['a paragraph of 50 MB', 'line.html', 'too_large', () => `<html><body>${'x'.repeat(50 * MiB)}`],
  ['a million paragraphs', 'deep-p.html', 'too_large', () => `<html><body>${'<p>'.repeat(MILLION)}words`],
  ['five million brackets', 'brackets.html', 'too_large', () => `<html><body>${'<'.repeat(5 * MILLION)}words`],
  ['a list of 50 MB', 'list.json', 'too_large', () => `[${'1,'.repeat(25 * MiB)}1]`],
  [
    'a mail of 50 MB',
    'line.eml',
    'too_large',
    () => `From: a@b.c\nMIME-Version: 1.0\nSubject: x\n\n${'x'.repeat(50 * MiB)}`,
  ],
  [
    'a subject of 50 MB',
    'head.eml',
    'corrupt_document',
    () => `From: a@b.c\nMIME-Version: 1.0\nSubject: ${'x'.repeat(50 * MiB)}`,
  ],
  ['a million columns', 'wide.csv', 'too_large', () => `${'x,'.repeat(MILLION)}\n`.repeat(5)],
  ['1,000 mails deep', 'deeper.eml', /^# 999/, () => office.nestedMail(1_000)],
];
