import { type FileHandle, open } from 'node:fs/promises';
import { readableFormats, type SourceFormat, textFormat } from '#src/domain/document-format.ts';
import { type AppError, appError } from '#src/errors.ts';
import type { ConversionLimits } from './conversion-limits.ts';
import { decodeText, unicodeEncoding } from './decode-text.ts';
import { cfbSignature, nameOfCompoundFile, nameOfKind, nameOfOfficeArchive } from './unread-kinds.ts';
import { listZipEntries } from './zip-guard.ts';

const headBytes = 64 * 1024;
/** Readers look for the mark of a PDF in the first kilobyte: some writers put a banner before it. */
const pdfMarkWithinBytes = 1024;
const zipSignature = Buffer.from('504b0304', 'hex');

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
    if (head.subarray(0, cfbSignature.length).equals(cfbSignature))
      throw refuseCfb(await nameOfCompoundFile(file, input.fileName));
    if (head.subarray(0, zipSignature.length).equals(zipSignature)) {
      const names = await listZipEntries(input.path, limits);
      if (names.some((name) => /^word\/document\d*\.xml$/.test(name))) return 'docx';
      throw refuse(nameOfOfficeArchive(names) ?? (await nameOfKind(head)));
    }
    const isText = looksLikeText(head);
    const pdfMark = head.subarray(0, pdfMarkWithinBytes).indexOf('%PDF-');
    if (pdfMark === 0 || (pdfMark > 0 && !isText)) return 'pdf';
    const format = isText ? textFormat({ ...input, head: decodeText(wholeCharacters(head)) }) : null;
    // Text that is not read as such is mail, where no signature says otherwise.
    if (!format) throw refuse((await nameOfKind(head)) ?? (isText ? 'an email (.eml)' : undefined));
    return format;
  } finally {
    await file.close();
  }
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

function refuseCfb(kind: string | null): AppError {
  return kind === null
    ? appError('encrypted_document', { detail: 'The file is protected; upload it without the protection.' })
    : refuse(kind);
}

function refuse(kind: string | undefined): AppError {
  return appError('unsupported_format', {
    detail: `The file is ${kind ?? 'of an unknown kind'}, which cannot be read. What can be read: ${readableFormats}.`,
  });
}
