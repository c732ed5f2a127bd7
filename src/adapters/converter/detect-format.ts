import { type FileHandle, open } from 'node:fs/promises';
import { fileTypeFromBuffer } from 'file-type';
import { detectTextFormat, readableFormatsDescription, type SourceFormat } from '#src/domain/documents/formats.ts';
import { type AppError, appError } from '#src/errors.ts';
import type { ConversionProcessLimits } from './conversion-limits.ts';
import { decodeText, detectUnicodeEncoding } from './decode-text.ts';
import { listZipEntries, zipSignature } from './zip-guard.ts';

/** A format that is read, or a name of another with what its user can do. */
type FileKind = SourceFormat | { name: string; advice?: string };

const asOffice = 'Save it as .docx, .odt or PDF in the program that made it';
const asWorkbook = 'Save it as .xlsx or .ods in the program that made it';
const asPicture = 'Save it as JPEG or PNG';
const asZip = 'Pack its files as .zip';

/** Patterns of entry names that identify a zip-based format. The first format whose patterns all match wins. */
const archiveParts: [RegExp[], FileKind][] = [
  [[/^word\/document\d*\.xml$/], 'docx'],
  [[/^xl\/workbook\d*\.(?:xml|bin)$/], 'xlsx'],
  [[/^ppt\/presentation\d*\.xml$/], 'pptx'],
  // An EPUB is identified by its .opf file too: MusicXML archives also have a container.xml, and the `mimetype` entry
  // is not reliable.
  [[/^META-INF\/container\.xml$/, /\.opf$/i], 'epub'],
  [[/^visio\/document\.xml$/], { name: 'a Visio drawing (.vsdx)', advice: 'Export it as PDF in Visio' }],
  [
    [/^Index\/.*\.iwa$/],
    { name: 'a document of Pages, Numbers or Keynote', advice: 'Export it as PDF, Word, Excel or PowerPoint there' },
  ],
];

/**
 * Stream names that identify the format of a compound file. Protected files come first, because they may also contain
 * the usual streams of their format.
 */
const compoundStreams: [RegExp, FileKind | 'protected'][] = [
  [/^EncryptedPackage$/i, 'protected'],
  [/^\tDRMContent$/i, 'protected'],
  [/^EncryptedSummary$/i, 'protected'],
  [/^__properties_version1\.0$/i, 'msg'],
  [/^PowerPoint Document$/i, 'ppt'],
  [/^WordDocument$/i, 'doc'],
  [/^(?:Workbook|Book)$/i, 'xls'],
  [/^VisioDocument$/i, { name: 'an old Visio drawing (.vsd)', advice: 'Export it as PDF in Visio' }],
  [/HwpSummaryInformation$/i, { name: 'a Hangul document (.hwp)', advice: asOffice }],
  [/^(?:MatOST|MM)$/, { name: 'a Works document (.wps)', advice: asOffice }],
  [/^Quill$/i, { name: 'a Publisher file (.pub)', advice: 'Export it as PDF in Publisher' }],
];

const postScript: FileKind = { name: 'a PostScript file', advice: 'Convert it to PDF' };

const signatures: Record<string, FileKind> = {
  'application/eps': postScript,
  'application/epub+zip': 'epub',
  'application/postscript': postScript,
  'application/vnd.oasis.opendocument.presentation': 'odp',
  'application/vnd.oasis.opendocument.presentation-template': 'odp',
  'application/vnd.oasis.opendocument.spreadsheet': 'ods',
  'application/vnd.oasis.opendocument.spreadsheet-template': 'ods',
  'application/vnd.oasis.opendocument.text': 'odt',
  'application/vnd.oasis.opendocument.text-template': 'odt',
  'application/x-7z-compressed': { name: 'an archive (.7z)', advice: asZip },
  'application/x-mobipocket-ebook': { name: 'an e-book of Kindle', advice: 'Convert it to .epub or PDF' },
  'application/x-rar-compressed': { name: 'an archive (.rar)', advice: asZip },
  'application/x-tar': 'archive',
  'application/zip': 'archive',
  'image/avif': 'image',
  'image/bmp': 'image',
  'image/gif': 'image',
  'image/jpeg': 'image',
  'image/png': 'image',
  'image/tiff': 'image',
  'image/webp': 'image',
};

/** Beginnings of files, in hexadecimal, that the file-type package does not know or takes for a mouse pointer. */
const marks: Record<string, FileKind> = {
  // Workbooks of Excel 2, 3 and 4.
  '0900': 'xls',
  '0902': 'xls',
  '0904': 'xls',
  '000002000404': { name: 'a Lotus 1-2-3 worksheet', advice: asWorkbook },
  '000002000604': { name: 'a Lotus 1-2-3 worksheet', advice: asWorkbook },
  ff00020004: { name: 'a Works spreadsheet', advice: asWorkbook },
  '31be0000': { name: 'a Write document', advice: asOffice },
  ff575043: { name: 'a WordPerfect document', advice: asOffice },
  e4525c7b8cd8a74d: { name: 'a OneNote section', advice: 'Export it as PDF or .docx in OneNote' },
  [hexOf('AT&TFORM')]: { name: 'a DjVu file', advice: 'Convert it to PDF' },
  [hexOf('HWP Document File')]: { name: 'a Hangul document (.hwp)', advice: asOffice },
};

/** First bytes of a TIFF, whose directory may be at its end, where the file-type package does not see it. */
export const tiffMarks: readonly string[] = ['II*\0', 'MM\0*'];

export function detectArchiveFormat(entryNames: readonly string[]): FileKind | undefined {
  const hasEntry = (part: RegExp) => entryNames.some((name) => part.test(name));
  return archiveParts.find(([parts]) => parts.every(hasEntry))?.[1];
}

export function detectCompoundFileFormat(rootNames: readonly string[]): FileKind | 'protected' {
  const found = compoundStreams.find(([pattern]) => rootNames.some((name) => pattern.test(name)));
  return found?.[1] ?? { name: 'an old Office file of an unknown kind' };
}

async function kindOfSignature(head: Buffer): Promise<FileKind | undefined> {
  // The file-type package throws when the sample of the file ends inside a structure; then the format stays
  // undetermined.
  const type = await fileTypeFromBuffer(head).catch(() => undefined);
  const start = head.toString('hex', 0, 20);
  const marked = Object.entries(marks).find(([mark]) => start.startsWith(mark));
  if (marked !== undefined) return marked[1];
  if (type === undefined) return tiffMarks.includes(head.toString('latin1', 0, 4)) ? 'image' : undefined;
  const [family] = type.mime.split('/');
  const known = type.ext === 'tar.gz' ? 'archive' : signatures[type.mime];
  if (known !== undefined) return known;
  if (family === 'image') return { name: `an image (.${type.ext})`, advice: asPicture };
  if (family === 'audio') return { name: `a sound recording (.${type.ext})` };
  if (family === 'video') return { name: `a video (.${type.ext})` };
  return { name: `a file of the type .${type.ext}` };
}

const headBytes = 64 * 1024;
/** PDF readers accept `%PDF-` anywhere in the first kilobyte, because some writers put a banner before it. */
const pdfMarkWithinBytes = 1024;

type Source = { path: string; fileName: string; declaredMediaType?: string };
type ArchiveLimits = Pick<ConversionProcessLimits, 'archiveEntries'>;

export async function detectFormat(source: Source, limits: ArchiveLimits): Promise<SourceFormat> {
  const file = await open(source.path);
  try {
    const head = await readHead(file);
    if (head.length === 0) throw appError('empty_document', { detail: 'The file has no content.' });
    const kind = await detectKind(source, file, head, limits);
    if (typeof kind === 'string') return kind;
    throw unsupportedFormat(kind);
  } finally {
    await file.close();
  }
}

async function detectKind(
  source: Source,
  file: FileHandle,
  head: Buffer,
  limits: ArchiveLimits,
): Promise<FileKind | undefined> {
  if (startsWith(head, compoundFileSignature)) {
    const kind = detectCompoundFileFormat(await listCompoundFileEntries(file));
    if (kind !== 'protected') return kind;
    throw appError('encrypted_document', {
      detail: 'The file is protected by a password or by usage rights; upload it without the protection.',
    });
  }
  if (startsWith(head, zipSignature)) {
    const names = await listZipEntries(source.path, limits.archiveEntries);
    return detectArchiveFormat(names) ?? (await kindOfSignature(head)) ?? 'archive';
  }
  const isText = looksLikeText(head);
  const pdfMark = head.subarray(0, pdfMarkWithinBytes).indexOf('%PDF-');
  if (pdfMark === 0 || (pdfMark > 0 && !isText)) return 'pdf';
  const format = isText ? detectTextFormat({ ...source, head: decodeText(trimCutCharacter(head)) }) : null;
  return format ?? kindOfSignature(head);
}

function hexOf(text: string): string {
  return Buffer.from(text).toString('hex');
}

function startsWith(head: Buffer, signature: Buffer): boolean {
  return head.subarray(0, signature.length).equals(signature);
}

async function readHead(file: FileHandle): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(headBytes), 0, headBytes, 0);
  return buffer.subarray(0, bytesRead);
}

function looksLikeText(head: Buffer): boolean {
  if (detectUnicodeEncoding(head)) return true;
  let controls = 0;
  for (const byte of head) {
    if (byte === 0) return false;
    if (byte < 0x20 && (byte < 0x09 || byte > 0x0d) && byte !== 0x1b) controls += 1;
  }
  return controls <= head.length / 100;
}

function trimCutCharacter(head: Buffer): Buffer {
  if (head.length < headBytes) return head;
  let end = head.length;
  while (end > head.length - 4 && ((head[end - 1] ?? 0) & 0xc0) === 0x80) end -= 1;
  return head.subarray(0, end - 1);
}

function unsupportedFormat(kind: { name: string; advice?: string } | undefined): AppError {
  const { name = 'of an unknown kind', advice } = kind ?? {};
  const help = advice ? `${advice}, and upload that.` : `What can be read: ${readableFormatsDescription}.`;
  return appError('unsupported_format', { detail: `The file is ${name}, which cannot be read. ${help}` });
}

/** Compound files (MS-CFB) are old Office documents, Outlook messages and encrypted new Office documents. */
const compoundFileSignature = Buffer.from('d0cf11e0a1b11ae1', 'hex');

const headerBytes = 512;
/** Sector numbers from this one on mark the end of a sector chain (MS-CFB). */
const lastSector = 0xfffffffa;
const entryBytes = 128;
/**
 * Maximum size of a compound file's directory. An Outlook message with thousands of attachments needs a few megabytes.
 */
const maxDirectoryBytes = 16 * 1024 ** 2;

/**
 * Names of the root entries of a compound file (MS-CFB). Nested files, such as a workbook in a Word file, do not count.
 */
export async function listCompoundFileEntries(file: FileHandle): Promise<string[]> {
  const { size } = await file.stat();
  const header = await readAt(file, 0, headerBytes);
  const sectorBytes = 2 ** header.readUInt16LE(30);
  if (sectorBytes !== 512 && sectorBytes !== 4096) throw damagedDirectory();
  const readSector = (sector: number) => readAt(file, (sector + 1) * sectorBytes, sectorBytes);
  const tables = await listAllocationTables(header, size / sectorBytes, readSector);

  const sectors: Buffer[] = [];
  let sector = header.readUInt32LE(48);
  while (sector < lastSector) {
    if (sectors.length * sectorBytes >= Math.min(size, maxDirectoryBytes)) throw damagedDirectory();
    sectors.push(await readSector(sector));
    const perTable = sectorBytes / 4;
    const table = tables[Math.floor(sector / perTable)];
    if (table === undefined) throw damagedDirectory();
    const next = await readAt(file, (table + 1) * sectorBytes + (sector % perTable) * 4, 4);
    sector = next.readUInt32LE();
  }
  return readRootNames(Buffer.concat(sectors));
}

/** Lists the sectors of the file allocation table: 109 from the header, others from a linked list (MS-CFB, DIFAT). */
async function listAllocationTables(
  header: Buffer,
  sectorCount: number,
  readSector: (sector: number) => Promise<Buffer>,
): Promise<number[]> {
  const tables = readUint32s(header.subarray(76));
  for (let sector = header.readUInt32LE(68); sector < lastSector; ) {
    if (tables.length > sectorCount) throw damagedDirectory();
    const list = readUint32s(await readSector(sector));
    sector = list.pop() ?? lastSector;
    tables.push(...list);
  }
  return tables;
}

function readRootNames(directory: Buffer): string[] {
  const names: string[] = [];
  const seen = new Set<number>();
  const pending = [directory.length < entryBytes ? lastSector : directory.readUInt32LE(76)];
  for (let index = pending.pop(); index !== undefined; index = pending.pop()) {
    const entry = directory.subarray(index * entryBytes, (index + 1) * entryBytes);
    if (entry.length < entryBytes || seen.has(index)) continue;
    seen.add(index);
    const nameBytes = Math.min(64, entry.readUInt16LE(64));
    names.push(entry.toString('utf16le', 0, Math.max(0, nameBytes - 2)));
    pending.push(entry.readUInt32LE(68), entry.readUInt32LE(72));
  }
  return names;
}

function readUint32s(bytes: Buffer): number[] {
  return Array.from({ length: bytes.length / 4 }, (_, index) => bytes.readUInt32LE(index * 4));
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position);
  if (bytesRead < length) throw damagedDirectory();
  return buffer;
}

function damagedDirectory(): AppError {
  return appError('corrupt_document', {
    detail: 'The file is damaged or cut off: its internal directory cannot be read.',
  });
}
