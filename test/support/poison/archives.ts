import { randomBytes } from 'node:crypto';
import { constants, deflateRawSync } from 'node:zlib';
import { zipFile } from '#test/support/document-fixtures.ts';

const MiB = 1024 ** 2;
const directoryMark = Buffer.from('PK\x01\x02');

/** A Word file of a thousand entries, all of which are the same bytes: each is modest, and together they are a bomb. */
export function overlappingZip(entryCount = 1_000): Buffer {
  const name = 'word/document.xml';
  const zip = zipFile({ [name]: randomBytes(125_000).toString('hex') });
  const start = zip.indexOf(directoryMark);
  const entry = zip.subarray(start, start + 46 + name.length);
  const entries = Array.from({ length: entryCount }, (_, index) => {
    const copy = Buffer.from(entry);
    if (index > 0) copy.write(`word/part-${String(index).padStart(3, '0')}.xml`, 46);
    return copy;
  });
  const end = Buffer.from(zip.subarray(start + entry.length));
  end.writeUInt16LE(entryCount, 8);
  end.writeUInt16LE(entryCount, 10);
  end.writeUInt32LE(entryCount * entry.length, 12);
  return Buffer.concat([zip.subarray(0, start), ...entries, end]);
}

/** Archives in archives, sixteen of each; the innermost unpack to a hundred megabytes. */
export function nestedZip(levels = 4): Buffer {
  let inner = zipFile({ '0.dll': Buffer.alloc(100 * MiB) });
  for (let level = 0; level < levels; level += 1) {
    inner = zipFile(Object.fromEntries(Array.from({ length: 16 }, (_, index) => [`${index}.zip`, inner])));
  }
  return inner;
}

/** Zeros in the format of zlib, made without having them: one block again and again. */
export function flateBomb(inflatedMiB: number): Buffer {
  const block = deflateRawSync(Buffer.alloc(MiB), { finishFlush: constants.Z_FULL_FLUSH });
  const last = deflateRawSync(Buffer.alloc(0));
  const sum = Buffer.alloc(4);
  // Adler-32 of zeros only counts them.
  sum.writeUInt16BE((inflatedMiB * MiB) % 65_521, 0);
  sum.writeUInt16BE(1, 2);
  return Buffer.concat([Buffer.from([0x78, 0x9c]), ...Array(inflatedMiB).fill(block), last, sum]);
}
