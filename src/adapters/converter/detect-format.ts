import { type FileHandle, open } from 'node:fs/promises';
import { fileTypeFromBuffer } from 'file-type';
import {
  type FileFormat,
  isSourceFormat,
  readableFormats,
  type SourceFormat,
  textFormat,
} from '#src/domain/document-format.ts';
import { type AppError, appError } from '#src/errors.ts';
import { compoundFileSignature, listCompoundRoot } from './compound-file.ts';
import type { ConversionLimits } from './conversion-limits.ts';
import { decodeText, unicodeEncoding } from './decode-text.ts';
import { kindOfArchive, kindOfCompoundFile, type OfficeKind } from './office-kinds.ts';
import { nameOfFormat, nameOfKind } from './unread-kinds.ts';
import { listZipEntries, zipSignature } from './zip-guard.ts';

const headBytes = 64 * 1024;
/** Readers look for the mark of a PDF in the first kilobyte: some writers put a banner before it. */
const pdfMarkWithinBytes = 1024;
/** What a TIFF holds is told further on, at its end for most programs; cameras have it tell of formats of their own. */
const tiffSignatures = ['II*\0', 'MM\0*'];
const imageTypes = ['image/bmp', 'image/gif', 'image/jpeg', 'image/png', 'image/tiff', 'image/webp'];

/**
 * Tells what a file is by its content. Nothing is unpacked or parsed.
 * @throws AppError empty_document, unsupported_format, encrypted_document, corrupt_document, too_large
 */
export async function detectFormat(
  input: { path: string; fileName: string; declaredMediaType?: string },
  limits: Pick<ConversionLimits, 'zipEntries'>,
): Promise<SourceFormat> {
  const file = await open(input.path);
  try {
    const head = await readHead(file);
    if (head.length === 0) throw appError('empty_document', { detail: 'The file has no content.' });
    const format = await formatOf(file, head, input, limits);
    if (format !== null && isSourceFormat(format)) return format;
    throw refuse((format && nameOfFormat(format)) ?? (await nameOfKind(head)));
  } finally {
    await file.close();
  }
}

/** Null for what is none of our formats. */
async function formatOf(
  file: FileHandle,
  head: Buffer,
  input: Parameters<typeof detectFormat>[0],
  limits: Parameters<typeof detectFormat>[1],
): Promise<FileFormat | null> {
  if (startsWith(head, compoundFileSignature)) {
    const kind = kindOfCompoundFile(await listCompoundRoot(file));
    if (kind !== 'protected') return formatOrRefuse(kind ?? { name: 'of the old Office formats, but of none known' });
    throw appError('encrypted_document', { detail: 'The file is protected; upload it without the protection.' });
  }
  if (startsWith(head, zipSignature)) {
    const kind = await kindOfArchive(head, await listZipEntries(input.path, limits));
    return kind ? formatOrRefuse(kind) : null;
  }
  const isText = looksLikeText(head);
  const pdfMark = head.subarray(0, pdfMarkWithinBytes).indexOf('%PDF-');
  if (pdfMark === 0 || (pdfMark > 0 && !isText)) return 'pdf';
  if (isText) return textFormat({ ...input, head: decodeText(wholeCharacters(head)) });
  const type = await fileTypeFromBuffer(head).catch(() => undefined);
  const mediaType = type?.mime ?? (tiffSignatures.includes(head.toString('latin1', 0, 4)) ? 'image/tiff' : '');
  return imageTypes.includes(mediaType) ? 'image' : null;
}

function formatOrRefuse(kind: OfficeKind): FileFormat {
  if ('format' in kind) return kind.format;
  throw refuse(kind.name);
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
