import { type Block, type Box, surround, textOf, usualHeight } from './tesseract-lines.ts';

/** A cell of a table has at most this many characters; a line of a column of text has more. */
const cellLength = 24;
/** Shares of the lines beside others that are short, and that are numbers, in a table without rules. */
const minCells = 0.9;
const minNumbers = 0.3;
/** Rows of a table without numbers are at least this many times as far apart as they are high. */
const minRowDistance = 1.6;

/** Finds the tables without rules, which Tesseract takes for columns of text: their blocks, and what they cover. */
export function findOpenTables(blocks: Block[]): { blocks: Block[]; bbox: Box }[] {
  return findBands(blocks).filter(isOpenTable);
}

/** Groups the blocks of a page that stand side by side, and returns for each group its blocks and what it covers. */
function findBands(blocks: Block[]): { blocks: Block[]; bbox: Box }[] {
  let bands: { blocks: Block[]; bbox: Box }[] = [];
  for (const block of blocks.filter(({ lines }) => lines.length > 0)) {
    const isBeside = ({ bbox }: { bbox: Box }) => bbox.y0 < block.bbox.y1 && bbox.y1 > block.bbox.y0;
    const beside = bands.filter(isBeside);
    const all = [...beside.flatMap((band) => band.blocks), block];
    bands = [...bands.filter((band) => !isBeside(band)), { blocks: all, bbox: surround(all.map(({ bbox }) => bbox)) }];
  }
  return bands;
}

/** Whether blocks side by side are a table and no columns of text. */
function isOpenTable({ blocks }: { blocks: Block[] }): boolean {
  const [left, ...others] = [...blocks].sort((a, b) => a.bbox.x0 - b.bbox.x0);
  const cells = others.filter(({ bbox }) => left && bbox.x0 > left.bbox.x1).flatMap(({ lines }) => lines);
  const texts = cells.map(({ words }) => textOf(words));
  const share = (wanted: (text: string) => boolean) => texts.filter(wanted).length / Math.max(1, texts.length);
  if (share((text) => text.length <= cellLength) < minCells) return false;
  const steps = others
    .flatMap(({ lines }) => lines.slice(1).map(({ bbox }, index) => bbox.y0 - (lines[index]?.bbox.y0 ?? bbox.y0)))
    .sort((a, b) => a - b);
  if (steps.length === 0) return false;
  const distance = (steps[Math.floor(steps.length / 2)] ?? 0) / usualHeight(cells);
  return share(isNumber) >= minNumbers || distance >= minRowDistance;
}

function isNumber(text: string): boolean {
  return (text.match(/\d/g)?.length ?? 0) > (text.match(/\p{L}/gu)?.length ?? 0);
}
