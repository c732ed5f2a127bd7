import { Transform } from 'node:stream';

/** Pieces are joined at this number, because one-byte pieces would take a hundred times the memory of the body. */
const maxPieces = 1_024;

/** Reads a whole body. Returns null, and closes the connection, if it is larger than `limitBytes`. */
export async function readWhole(body: AsyncIterable<Uint8Array>, limitBytes: number): Promise<Buffer | null> {
  const { bytes, isWhole } = await readUpTo(body, limitBytes);
  return isWhole ? bytes : null;
}

/** Reads at least the first `limitBytes` of a body, or all of it, and closes the connection. */
export async function readBeginning(body: AsyncIterable<Uint8Array>, limitBytes: number): Promise<Buffer> {
  return (await readUpTo(body, limitBytes)).bytes.subarray(0, limitBytes);
}

async function readUpTo(body: AsyncIterable<Uint8Array>, limitBytes: number) {
  let pieces: Uint8Array[] = [];
  let sizeBytes = 0;
  // Leaving the loop destroys the body, which closes the connection.
  for await (const piece of body) {
    pieces.push(piece);
    sizeBytes += piece.length;
    if (sizeBytes > limitBytes) return { bytes: Buffer.concat(pieces), isWhole: false };
    if (pieces.length === maxPieces) pieces = [Buffer.concat(pieces)];
  }
  return { bytes: Buffer.concat(pieces), isWhole: true };
}

/** A pass-through stream that fails with `tooLarge()` after `limitBytes`. */
export function atMost(limitBytes: number, tooLarge: () => Error): Transform {
  let sizeBytes = 0;
  return new Transform({
    transform(piece: Buffer, _encoding, done) {
      sizeBytes += piece.length;
      if (sizeBytes > limitBytes) done(tooLarge());
      else done(null, piece);
    },
  });
}
