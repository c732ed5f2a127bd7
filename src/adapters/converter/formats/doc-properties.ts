import type { DocFile, DocTable } from './doc-file.ts';

/** Changes of properties by their codes; each has its operand, without a length before it. */
export type Properties = ReadonlyMap<number, Buffer>;

/** What Word writes for a stretch of the main stream. */
type Run = { start: number; end: number; styleId: number; properties: Properties };

const pageBytes = 512;
/** Sizes of operands by the three highest bits of a code; 6 has its length before it. */
const operandBytes = [1, 1, 2, 4, 2, 2, 0, 3];

export const codes = {
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

/** A list of changes (grpprl). */
export function readProperties(bytes: Buffer): Map<number, Buffer> {
  const properties = new Map<number, Buffer>();
  for (let at = 0; at + 2 < bytes.length; ) {
    const code = bytes.readUInt16LE(at);
    at += 2;
    let length = operandBytes[code >> 13] ?? 0;
    if (code === codes.row) {
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

export function numberOf(properties: Properties, code: number): number | undefined {
  const operand = properties.get(code);
  return operand === undefined || operand.length === 0 ? undefined : operand.readUIntLE(0, Math.min(4, operand.length));
}

/** Of paragraphs or of characters, in the order of the main stream: pages that a table lists hold some runs each. */
export function readRuns({ main, table }: DocFile, kind: 'paragraphPages' | 'characterPages'): Run[] {
  const list = table(kind satisfies DocTable);
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

function paragraphProperties(page: Buffer, placesAt: number, index: number) {
  const at = page.readUInt8(placesAt + index * 13) * 2;
  if (at === 0) return { styleId: 0, properties: new Map() };
  const words = page.readUInt8(at);
  const bytes =
    words === 0 ? page.subarray(at + 2, at + 2 + page.readUInt8(at + 1) * 2) : page.subarray(at + 1, at + words * 2);
  return { styleId: bytes.readUInt16LE(0), properties: readProperties(bytes.subarray(2)) };
}

function characterProperties(page: Buffer, placesAt: number, index: number) {
  const at = page.readUInt8(placesAt + index) * 2;
  const bytes = at === 0 ? page.subarray(0, 0) : page.subarray(at + 1, at + 1 + page.readUInt8(at));
  return { styleId: 0, properties: readProperties(bytes) };
}

/** The run that holds a place of the main stream. */
export function runAt(runs: Run[], place: number): Run | undefined {
  let [low, high] = [0, runs.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((runs[middle]?.end ?? 0) <= place) low = middle + 1;
    else high = middle;
  }
  const run = runs[low];
  return run && run.start <= place ? run : undefined;
}
