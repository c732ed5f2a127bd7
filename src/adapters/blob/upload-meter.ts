import { createHash } from 'node:crypto';
import { appError } from '#src/errors.ts';

/** Counts and hashes what flows through it, and breaks off beyond the limit. */
export function createUploadMeter(limitBytes: number) {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  return {
    async *measure(content: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
      for await (const piece of content) {
        sizeBytes += piece.length;
        if (sizeBytes > limitBytes) {
          throw appError('payload_too_large', { detail: `The file has more than ${limitBytes} bytes.` });
        }
        hash.update(piece);
        yield piece;
      }
    },
    /** Of all that has passed; to be asked once, at the end. */
    result: (): { sizeBytes: number; sha256: string } => ({ sizeBytes, sha256: hash.digest('hex') }),
  };
}
