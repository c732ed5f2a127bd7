import { createHash } from 'node:crypto';
import { Transform } from 'node:stream';
import { appError } from '#src/errors.ts';

/** Counts and hashes what flows through it, and breaks off beyond the limit. */
export function createUploadMeter(limitBytes: number): {
  stream: Transform;
  /** Of all that has passed; to be asked once, at the end. */
  result(): { sizeBytes: number; sha256: string };
} {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  const stream = new Transform({
    transform(piece: Buffer, _encoding, done) {
      sizeBytes += piece.length;
      if (sizeBytes > limitBytes) {
        done(appError('payload_too_large', { detail: `The file has more than ${limitBytes} bytes.` }));
        return;
      }
      hash.update(piece);
      done(null, piece);
    },
  });
  return { stream, result: () => ({ sizeBytes, sha256: hash.digest('hex') }) };
}
