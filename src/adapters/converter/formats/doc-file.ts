import { CFB } from '@e965/xlsx';
import { appError } from '#src/errors.ts';
import { decodeText } from '../decode-text.ts';

/** File format version (`nFib`) of Word 97, the oldest version with this file layout (MS-DOC). */
const oldestVersion = 193;
const encryptedFlag = 0x100;
const secondTableFlag = 0x200;
const lengthsAt = 64;
const tablesAt = 154;

const docTables = {
  styles: 1,
  footnoteReferences: 2,
  footnotes: 3,
  commentReferences: 4,
  comments: 5,
  headers: 11,
  characterPages: 12,
  paragraphPages: 13,
  pieces: 33,
  commentAuthors: 36,
  endnoteReferences: 46,
  endnotes: 47,
  lists: 73,
  listOverrides: 74,
} as const;
export type DocFileTableName = keyof typeof docTables;

type DocPiece = { start: number; end: number; offset: number; bytesPerCharacter: 1 | 2 };

/** Lengths in UTF-16 units of the text sections of a .doc file, which follow one another in this order. */
type DocLengths = {
  text: number;
  footnotes: number;
  headers: number;
  macros: number;
  comments: number;
  endnotes: number;
  boxes: number;
};

export type DocFile = {
  main: Buffer;
  /**
   * Returns all bytes from the start of this table on, beyond the table's stated length, because list levels follow the
   * list table.
   */
  tableFrom(name: DocFileTableName): Buffer;
  table(name: DocFileTableName): Buffer;
  text: string;
  pieces: DocPiece[];
  lengths: DocLengths;
  summary: Buffer | null;
};

/** @throws AppError encrypted_document; unsupported_format for Word 95 and older; corrupt_document */
export function openDocFile(bytes: Buffer): DocFile {
  const container = CFB.read(bytes, { type: 'buffer' });
  const stream = (name: string) => {
    const content = CFB.find(container, `/${name}`)?.content;
    return content === undefined ? null : Buffer.from(content);
  };
  const main = stream('WordDocument');
  if (!main) throw appError('corrupt_document', { detail: 'The file lacks the part that holds its text.' });
  const flags = main.readUInt16LE(10);
  if (flags & encryptedFlag) {
    throw appError('encrypted_document', {
      detail: 'The file opens only with a password; upload it without the password.',
    });
  }
  if (main.readUInt16LE(2) < oldestVersion) {
    throw appError('unsupported_format', {
      detail: 'The file is of Word 95 or older, which cannot be read. Save it as .docx and upload that.',
    });
  }
  const tables = stream(flags & secondTableFlag ? '1Table' : '0Table');
  if (!tables) throw appError('corrupt_document', { detail: 'The Word file is damaged: its table stream is missing.' });
  const entryOffset = (name: DocFileTableName) => tablesAt + docTables[name] * 8;
  const tableFrom = (name: DocFileTableName) => tables.subarray(main.readUInt32LE(entryOffset(name)));
  const table = (name: DocFileTableName) => tableFrom(name).subarray(0, main.readUInt32LE(entryOffset(name) + 4));
  const pieces = readPieces(table('pieces'));
  const length = (index: number) => main.readUInt32LE(lengthsAt + index * 4);
  return {
    main,
    table,
    tableFrom,
    pieces,
    text: pieces.map((piece) => pieceText(main, piece)).join(''),
    lengths: {
      text: length(3),
      footnotes: length(4),
      headers: length(5),
      macros: length(6),
      comments: length(7),
      endnotes: length(8),
      boxes: length(9),
    },
    summary: stream('\u0005SummaryInformation'),
  };
}

/** Reads the piece table (MS-DOC, Clx), into which quick saves split the text. Skips property changes (Prc). */
function readPieces(table: Buffer): DocPiece[] {
  let at = 0;
  while (table[at] === 1) at += 3 + table.readUInt16LE(at + 1);
  const plc = table.subarray(at + 5, at + 5 + table.readUInt32LE(at + 1));
  const count = (plc.length - 4) / 12;
  return Array.from({ length: count }, (_, index) => {
    const position = plc.readUInt32LE((count + 1) * 4 + index * 8 + 2);
    const isCompressed = (position & 0x40000000) !== 0;
    const offset = position & 0x3fffffff;
    return {
      start: plc.readUInt32LE(index * 4),
      end: plc.readUInt32LE(index * 4 + 4),
      offset: isCompressed ? offset / 2 : offset,
      bytesPerCharacter: isCompressed ? 1 : 2,
    };
  });
}

function pieceText(main: Buffer, { start, end, offset, bytesPerCharacter }: DocPiece): string {
  if (end < start || end - start > main.length) {
    throw appError('corrupt_document', {
      detail: 'The Word file is damaged: its stated text length is larger than its text.',
    });
  }
  const bytes = main.subarray(offset, offset + (end - start) * bytesPerCharacter);
  const text = bytesPerCharacter === 1 ? windows1252.decode(bytes) : bytes.toString('utf16le');
  // A truncated piece is padded, so that the offsets of all following text stay correct.
  return text.padEnd(end - start, '\0');
}

const windows1252 = new TextDecoder('windows-1252');

export function readDocTitle(summary: Buffer): string {
  const section = summary.subarray(summary.readUInt32LE(44));
  const count = Math.min(100, section.readUInt32LE(4));
  for (let index = 0; index < count; index += 1) {
    const isTitle = section.readUInt32LE(8 + index * 8) === 2;
    if (!isTitle) continue;
    const at = section.readUInt32LE(12 + index * 8);
    const length = section.readUInt32LE(at + 4);
    const isWide = section.readUInt32LE(at) === 31;
    const bytes = section.subarray(at + 8, at + 8 + length * (isWide ? 2 : 1));
    return (isWide ? bytes.toString('utf16le') : decodeText(bytes)).replace(/\0.*$/s, '');
  }
  return '';
}

/** Formatting properties (MS-DOC sprm) by property code; each value is the operand without its length prefix. */
export type DocProperties = ReadonlyMap<number, Buffer>;

type Run = { start: number; end: number; styleId: number; properties: DocProperties };

const pageBytes = 512;
/** Operand sizes by the three highest bits of a property code (MS-DOC, spra); for spra 6, the length comes first. */
const operandBytes = [1, 1, 2, 4, 2, 2, 0, 3];

export const docPropertyCodes = {
  isDeleted: 0x0800,
  isHidden: 0x083c,
  characterStyle: 0x4a30,
  isInTable: 0x2416,
  isRowEnd: 0x2417,
  outlineLevel: 0x2640,
  listLevel: 0x260a,
  list: 0x460b,
  tableDepth: 0x6649,
  isInnerCell: 0x244b,
  isInnerRowEnd: 0x244c,
  row: 0xd608,
} as const;

export function readDocProperties(bytes: Buffer): Map<number, Buffer> {
  const properties = new Map<number, Buffer>();
  for (let at = 0; at + 2 < bytes.length; ) {
    const code = bytes.readUInt16LE(at);
    at += 2;
    let length = operandBytes[code >> 13] ?? 0;
    if (code === docPropertyCodes.row) {
      length = bytes.readUInt16LE(at) - 1;
      at += 2;
    } else if (code >> 13 === 6) {
      length = bytes.readUInt8(at);
      at += 1;
    }
    properties.set(code, bytes.subarray(at, at + length));
    at += Math.max(0, length);
  }
  return properties;
}

export function docPropertyAsNumber(properties: DocProperties, code: number): number | undefined {
  const operand = properties.get(code);
  return operand === undefined || operand.length === 0 ? undefined : operand.readUIntLE(0, Math.min(4, operand.length));
}

export function readDocFormattingRuns({ main, table }: DocFile, kind: 'paragraphPages' | 'characterPages'): Run[] {
  const list = table(kind satisfies DocFileTableName);
  const pageCount = Math.floor((list.length - 4) / 8);
  const runs: Run[] = [];
  for (let index = 0; index < pageCount; index += 1) {
    const number = list.readUInt32LE((pageCount + 1) * 4 + index * 4) & 0x3fffff;
    const page = main.subarray(number * pageBytes, (number + 1) * pageBytes);
    if (page.length < pageBytes) continue;
    const count = page.readUInt8(pageBytes - 1);
    for (let run = 0; run < count; run += 1) {
      const [start, end] = [page.readUInt32LE(run * 4), page.readUInt32LE(run * 4 + 4)];
      const read = kind === 'paragraphPages' ? paragraphProperties : characterProperties;
      runs.push({ start, end, ...read(page, (count + 1) * 4, run) });
    }
  }
  return runs.sort((a, b) => a.start - b.start);
}

function paragraphProperties(page: Buffer, offsetsAt: number, index: number) {
  const at = page.readUInt8(offsetsAt + index * 13) * 2;
  if (at === 0) return { styleId: 0, properties: new Map() };
  const words = page.readUInt8(at);
  const bytes =
    words === 0 ? page.subarray(at + 2, at + 2 + page.readUInt8(at + 1) * 2) : page.subarray(at + 1, at + words * 2);
  return { styleId: bytes.readUInt16LE(0), properties: readDocProperties(bytes.subarray(2)) };
}

function characterProperties(page: Buffer, offsetsAt: number, index: number) {
  const at = page.readUInt8(offsetsAt + index) * 2;
  const bytes = at === 0 ? page.subarray(0, 0) : page.subarray(at + 1, at + 1 + page.readUInt8(at));
  return { styleId: 0, properties: readDocProperties(bytes) };
}

export function findDocFormattingRun(runs: Run[], offset: number): Run | undefined {
  let [low, high] = [0, runs.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((runs[middle]?.end ?? 0) <= offset) low = middle + 1;
    else high = middle;
  }
  const run = runs[low];
  return run && run.start <= offset ? run : undefined;
}
