import type { FileHandle } from 'node:fs/promises';
import { fileTypeFromBuffer } from 'file-type';
import { fileExtension } from '#src/domain/document-format.ts';

/** The first bytes of a compound file: old Office documents, Outlook mail, and encrypted new Office documents. */
export const cfbSignature = Buffer.from('d0cf11e0a1b11ae1', 'hex');

const windowBytes = 1024 ** 2;

/** Parts of archives, and names of streams in compound files, that only one kind has; the first that is there counts. */
const officeParts: [RegExp, string][] = [
  [/^xl\//, 'an Excel workbook (.xlsx)'],
  [/^ppt\//, 'a PowerPoint presentation (.pptx)'],
  [/^visio\//, 'a Visio drawing (.vsdx)'],
];
const protectedPackage = 'protected';
const compoundStreams: [string, string][] = [
  ['EncryptedPackage', protectedPackage],
  ['DRMEncryptedTransform', protectedPackage],
  ['__substg1.0_', 'an Outlook message (.msg)'],
  ['PowerPoint Document', 'an old PowerPoint presentation (.ppt)'],
  ['WordDocument', 'an old Word document (.doc)'],
  ['Workbook', 'an old Excel workbook (.xls)'],
  ['VisioDocument', 'an old Visio drawing (.vsd)'],
];

/** What is behind a protection only the name tells. */
const protectedKinds: [RegExp, string][] = [
  [/^xl[st][xmb]$/, 'a protected Excel workbook'],
  [/^p[po][ts][xm]$/, 'a protected PowerPoint presentation'],
  [/^vs[dst][xm]$/, 'a protected Visio drawing'],
  [/^msg$/, 'a protected Outlook message'],
];

const namesByMediaType: Record<string, string> = {
  'application/epub+zip': 'an e-book (.epub)',
  'application/postscript': 'a PostScript file',
  'application/rtf': 'a rich text document (.rtf)',
  'application/vnd.oasis.opendocument.presentation': 'an OpenDocument presentation (.odp)',
  'application/vnd.oasis.opendocument.spreadsheet': 'an OpenDocument spreadsheet (.ods)',
  'application/vnd.oasis.opendocument.text': 'an OpenDocument text (.odt)',
  'application/zip': 'an archive (.zip)',
};

/** What people call a file of that kind, with its article; undefined when the first bytes say nothing. */
export async function nameOfKind(head: Buffer): Promise<string | undefined> {
  // The head alone can end in the middle of what the detector expects: then there is no name, which is no failure.
  const type = await fileTypeFromBuffer(head).catch(() => undefined);
  if (type === undefined) return undefined;
  const [family] = type.mime.split('/');
  const named = namesByMediaType[type.mime];
  if (named !== undefined) return named;
  if (family === 'image') return `an image (.${type.ext})`;
  if (family === 'audio') return `a sound recording (.${type.ext})`;
  if (family === 'video') return `a video (.${type.ext})`;
  return `a file of the type .${type.ext}`;
}

export function nameOfOfficeArchive(entryNames: readonly string[]): string | undefined {
  return officeParts.find(([part]) => entryNames.some((name) => part.test(name)))?.[1];
}

/**
 * The kind of a compound file, by the streams that it has; null for one that might be read without its protection. The
 * names are looked for in the bytes: walking the sector chains of a hostile file gains nothing when it is not going to
 * be read.
 */
export async function nameOfCompoundFile(file: FileHandle, fileName: string): Promise<string | null> {
  const found = await findStreams(file);
  const kind = compoundStreams.find(([stream]) => found.has(stream))?.[1];
  if (kind !== protectedPackage) return kind ?? 'an old Office document or Outlook message';
  const extension = fileExtension(fileName);
  return protectedKinds.find(([pattern]) => pattern.test(extension))?.[1] ?? null;
}

async function findStreams(file: FileHandle): Promise<Set<string>> {
  const marks = compoundStreams.map(([name]) => ({ name, bytes: Buffer.from(name, 'utf16le') }));
  const overlap = Math.max(...marks.map(({ bytes }) => bytes.length));
  const window = Buffer.alloc(windowBytes + overlap);
  const found = new Set<string>();
  for (let position = 0; ; position += windowBytes) {
    const { bytesRead } = await file.read(window, 0, window.length, position);
    const read = window.subarray(0, bytesRead);
    for (const { name, bytes } of marks) if (read.includes(bytes)) found.add(name);
    if (bytesRead < window.length) return found;
  }
}
