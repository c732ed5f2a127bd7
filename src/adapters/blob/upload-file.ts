import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { appError } from '#src/errors.ts';

/** Throws for an invalid key, so that a bug cannot reach a path outside of the blob store. */
export function requireValidBlobKey(key: string): string {
  if (!/^[\w-]+(\/[\w-]+)*$/.test(key)) throw new Error(`"${key}" is not a blob key`);
  return key;
}

/**
 * Writes an upload to a new file while counting and hashing its bytes. The caller deletes the file after an error.
 * Throws `payload_too_large` above `limitBytes`, and the error of `content` unchanged.
 */
export async function writeUploadFile(
  path: string,
  upload: { content: AsyncIterable<Buffer>; limitBytes: number },
  options: { flush: boolean },
): Promise<{ sizeBytes: number; sha256: string }> {
  const { content, limitBytes } = upload;
  const hash = createHash('sha256');
  let sizeBytes = 0;
  async function* measured(): AsyncGenerator<Buffer> {
    for await (const piece of content) {
      sizeBytes += piece.length;
      if (sizeBytes > limitBytes) {
        throw appError('payload_too_large', { detail: `The file has more than ${limitBytes} bytes.` });
      }
      hash.update(piece);
      yield piece;
    }
  }
  const file = createWriteStream(path, { flags: 'wx', ...options });
  try {
    await pipeline(measured(), file);
  } catch (error) {
    // `pipeline` rejects although the file may still be opening, and then it would appear after the caller's deletion.
    if (!file.closed) await new Promise<void>((resolve) => file.once('close', resolve));
    throw error;
  }
  return { sizeBytes, sha256: hash.digest('hex') };
}

/** Maps a full disk to `service_unavailable`: deletions free space, so a retry may succeed. */
export function toStorageError(error: unknown): unknown {
  if (!hasErrorCode(error, 'ENOSPC', 'EDQUOT')) return error;
  return appError('service_unavailable', {
    detail: 'The disk for files is full.',
    retryAfterSeconds: 60,
    cause: error,
  });
}

export function hasErrorCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code));
}
