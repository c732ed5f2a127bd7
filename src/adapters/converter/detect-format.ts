import { type FileHandle, open } from 'node:fs/promises';
import { readableFormats, type SourceFormat, textFormat } from '#src/domain/documents/formats.ts';
import { type AppError, appError } from '#src/errors.ts';
import { compoundFileSignature, listCompoundRoot } from './compound-file.ts';
import type { ConversionLimits } from './conversion-limits.ts';
import { decodeText, unicodeEncoding } from './decode-text.ts';
import { type FileKind, kindOfArchive, kindOfCompoundFile, kindOfSignature } from './file-kinds.ts';
import { listZipEntries, zipSignature } from './zip-guard.ts';

const headBytes = 64 * 1024;
/** Readers look for the mark of a PDF in the first kilobyte: some writers put a banner before it. */
const pdfMarkWithinBytes = 1024;

type Source = { path: string; fileName: string; declaredMediaType?: string };
type ArchiveLimits = Pick<ConversionLimits, 'zipEntries'>;

/**
 * Tells what a file is by its content. Nothing is unpacked or parsed.
 * @throws AppError empty_document, unsupported_format, encrypted_document, corrupt_document, too_large
 */
export async function detectFormat(source: Source, limits: ArchiveLimits): Promise<SourceFormat> {
  const file = await open(source.path);
  try {
    const head = await readHead(file);
    if (head.length === 0) throw appError('empty_document', { detail: 'The file has no content.' });
    const kind = await kindOf(source, file, head, limits);
    if (typeof kind === 'string') return kind;
    throw refuse(kind?.name);
  } finally {
    await file.close();
  }
}

async function kindOf(
  source: Source,
  file: FileHandle,
  head: Buffer,
  limits: ArchiveLimits,
): Promise<FileKind | undefined> {
  if (startsWith(head, compoundFileSignature)) {
    const kind = kindOfCompoundFile(await listCompoundRoot(file));
    if (kind !== 'protected') return kind;
    throw appError('encrypted_document', { detail: 'The file is protected; upload it without the protection.' });
  }
  if (startsWith(head, zipSignature)) {
    return kindOfArchive(await listZipEntries(source.path, limits)) ?? kindOfSignature(head);
  }
  const isText = looksLikeText(head);
  const pdfMark = head.subarray(0, pdfMarkWithinBytes).indexOf('%PDF-');
  if (pdfMark === 0 || (pdfMark > 0 && !isText)) return 'pdf';
  const format = isText ? textFormat({ ...source, head: decodeText(wholeCharacters(head)) }) : null;
  return format ?? kindOfSignature(head);
}

function startsWith(head: Buffer, signature: Buffer): boolean {
  return head.subarray(0, signature.length).equals(signature);
}

async function readHead(file: FileHandle): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(headBytes), 0, headBytes, 0);
  return buffer.subarray(0, bytesRead);
}

/** Text of any encoding has no NUL and next to no control characters; UTF-16 proves itself another way. */
function looksLikeText(head: Buffer): boolean {
  if (unicodeEncoding(head)) return true;
  let controls = 0;
  for (const byte of head) {
    if (byte === 0) return false;
    // Tab, newlines, form feed and the escape of the Japanese and terminal encodings belong to text.
    if (byte < 0x20 && (byte < 0x09 || byte > 0x0d) && byte !== 0x1b) controls += 1;
  }
  return controls <= head.length / 100;
}

/** The head may end inside a character; without its last bytes it is valid UTF-8 up to the end. */
function wholeCharacters(head: Buffer): Buffer {
  if (head.length < headBytes) return head;
  let end = head.length;
  while (end > head.length - 4 && ((head[end - 1] ?? 0) & 0xc0) === 0x80) end -= 1;
  return head.subarray(0, end - 1);
}

function refuse(kind: string | undefined): AppError {
  return appError('unsupported_format', {
    detail: `The file is ${kind ?? 'of an unknown kind'}, which cannot be read. What can be read: ${readableFormats}.`,
  });
}
