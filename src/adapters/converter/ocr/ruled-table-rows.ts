import type { RuledTable, TableCell } from './ruled-tables.ts';
import { type Block, type Box, surround, type TesseractLine } from './tesseract-lines.ts';

/** Reading a cell alone takes about 15 ms, and a page of graph paper has thousands of cells. */
const maxCellsReadAlone = 200;

type ReadPart = (part: Box) => TesseractLine[];

/**
 * Reads each table as a block with one line for each row, in which the words of each cell stand together. The words of a
 * cell come from reading its table, else from `found`, what was read of the whole page; a cell that has ink but no words
 * there is read alone.
 */
export function readRuledTables(
  tables: RuledTable[],
  found: TesseractLine[],
  readTable: ReadPart,
  readCell: ReadPart,
): Block[] {
  let remaining = maxCellsReadAlone;
  const readAlone = (cell: TableCell) => {
    if (!cell.hasText || remaining === 0) return [];
    remaining -= 1;
    return readCell(cell);
  };
  return tables.map(({ bbox, rows }) => {
    const readings = [readTable(bbox), found];
    const readWords = (cell: TableCell) =>
      readings.map((lines) => linesWithin(cell, lines)).find((lines) => lines.length > 0) ?? readAlone(cell);
    return { bbox, lines: rows.flatMap((cells) => joinLines(cells.flatMap(readWords))) };
  });
}

function linesWithin(cell: Box, lines: TesseractLine[]): TesseractLine[] {
  return lines.flatMap((line) => {
    const words = line.words.filter(({ bbox }) => contains(cell, bbox));
    return words.length > 0 ? [{ ...line, words }] : [];
  });
}

function joinLines(lines: TesseractLine[]): TesseractLine[] {
  const [first] = lines;
  const words = lines.flatMap((line) => line.words);
  return first ? [{ ...first, words, bbox: surround(words.map(({ bbox }) => bbox)) }] : [];
}

/** Leaves out the lines within tables, and the blocks that have no others. */
export function withoutTables(blocks: Block[], tables: Block[]): Block[] {
  if (tables.length === 0) return blocks;
  return blocks.flatMap((block) => {
    const lines = block.lines.filter(({ bbox }) => !tables.some((table) => contains(table.bbox, bbox)));
    return lines.length > 0 ? [{ bbox: surround(lines.map(({ bbox }) => bbox)), lines }] : [];
  });
}

/** Inserts each table before the first block that begins below its upper edge. */
export function withTables(blocks: Block[], tables: Block[]): Block[] {
  const all = [...blocks];
  for (const table of tables) {
    const index = all.findIndex(({ bbox }) => bbox.y0 >= table.bbox.y0);
    all.splice(index < 0 ? all.length : index, 0, table);
  }
  return all;
}

/** Whether the middle of the inner box is in the outer one. */
function contains(outer: Box, inner: Box): boolean {
  const [x, y] = [(inner.x0 + inner.x1) / 2, (inner.y0 + inner.y1) / 2];
  return x > outer.x0 && x < outer.x1 && y > outer.y0 && y < outer.y1;
}
