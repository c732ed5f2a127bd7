import type { FileHandle } from 'node:fs/promises';

/** The first bytes of a compound file: old Office documents, Outlook mail, and encrypted new Office documents. */
export const cfbSignature = Buffer.from('d0cf11e0a1b11ae1', 'hex');

/** Stream names and mail headers that only protected files have, as compound files write them. */
const protectionMarks = [
  'EncryptedPackage',
  'DRMEncryptedTransform',
  'multipart/encrypted',
  'IPM.Note.SMIME',
  'message.rpmsg',
];

const windowBytes = 1024 ** 2;

/**
 * Whether a compound file says that it is protected. The marks are looked for in the bytes: walking the sector chains
 * of a hostile file gains nothing when it is not going to be read.
 */
export async function isProtectedCfb(file: FileHandle): Promise<boolean> {
  const marks = protectionMarks.map((mark) => Buffer.from(mark, 'utf16le'));
  const overlap = Math.max(...marks.map((mark) => mark.length));
  const window = Buffer.alloc(windowBytes + overlap);
  for (let position = 0; ; position += windowBytes) {
    const { bytesRead } = await file.read(window, 0, window.length, position);
    const bytes = window.subarray(0, bytesRead);
    if (marks.some((mark) => bytes.includes(mark))) return true;
    if (bytesRead < window.length) return false;
  }
}
