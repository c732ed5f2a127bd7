import { randomBytes } from 'node:crypto';
import { zipFile } from '#test/support/document-fixtures.ts';

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
