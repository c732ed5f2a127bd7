import type { GreyImage } from './grey-image.ts';
import type { Box } from './tesseract-lines.ts';

export type TableCell = Box & { hasText: boolean };
/** The cells of each row from left to right, and the rows from top to bottom. */
export type RuledTable = { bbox: Box; rows: TableCell[][] };

/** Pixels below this value are dark enough for a rule. */
const dark = 150;
/** A rule is at least this share of the longer side of the image long; the strokes of letters are shorter. */
const minRuleLength = 1 / 25;
/** A rule is at most this share of the longer side thick; filled areas are thicker. */
const maxRuleThickness = 1 / 200;

/** Remains of rules are this close to the edge of a cell. */
const edge = 4;
/** A cell with fewer dark pixels is empty. */
const minInk = 12;

/** The background of a filled cell is darker than this; its text is light. */
const darkFill = 80;

/** A dark run of pixels along a row (or a column) of the image; `across` is the number of that row (or column). */
type Run = { across: number; from: number; to: number };
/** `isEdge`: not a line, but where a filled area ends. */
type Rule = { runs: Run[]; isEdge: boolean; from: number; to: number; first: number; last: number };

/**
 * Finds tables with rules, erases their rules from the image, and inverts their dark cells: Tesseract's layout analysis
 * takes rules for the frames of pictures, and leaves out the text of cells.
 */
export function takeOutRuledTables(image: GreyImage): RuledTable[] {
  const { width, height, pixels } = image;
  const longer = Math.max(width, height);
  const [minLength, thickness] = [longer * minRuleLength, Math.max(6, Math.round(longer * maxRuleThickness))];
  const isDark = (across: number, along: number) => (pixels[across * width + along] ?? 255) < dark;
  const isDarkTurned = (across: number, along: number) => (pixels[along * width + across] ?? 255) < dark;
  const horizontal = findRules(isDark, height, width, minLength, thickness);
  if (horizontal.length < 2) return [];
  const vertical = findRules(isDarkTurned, width, height, minLength, thickness);
  const groups = groupCrossing(horizontal, vertical, thickness).filter(isTable);
  const tables = groups.map((group) => describeTable(group, thickness, image)).sort(byPosition);
  for (const group of groups) {
    for (const { across, from, to } of group.horizontal.flatMap(runsToErase))
      for (let y = Math.max(0, across - 1); y <= Math.min(height - 1, across + 1); y += 1)
        pixels.fill(255, y * width + from, y * width + to);
    for (const { across, from, to } of group.vertical.flatMap(runsToErase))
      for (let y = from; y < to; y += 1)
        pixels.fill(255, y * width + Math.max(0, across - 1), y * width + Math.min(width, across + 2));
  }
  return tables;
}

/** Returns the table as it is on the image enlarged by `factor`. */
export function scaleTable({ bbox, rows }: RuledTable, factor: number): RuledTable {
  const scale = ({ x0, y0, x1, y1 }: Box) => ({ x0: x0 * factor, y0: y0 * factor, x1: x1 * factor, y1: y1 * factor });
  return { bbox: scale(bbox), rows: rows.map((cells) => cells.map((cell) => ({ ...cell, ...scale(cell) }))) };
}

/** A table has at least two cells; fewer are a frame around a text. */
function isTable({ horizontal, vertical }: Group): boolean {
  return horizontal.length > 1 && vertical.length > 1 && horizontal.length + vertical.length > 4;
}

function runsToErase({ runs, isEdge }: Rule): Run[] {
  return isEdge ? [] : runs;
}

type IsDark = (across: number, along: number) => boolean;

function findRules(isDark: IsDark, size: number, length: number, minLength: number, thickness: number): Rule[] {
  const lines: Run[] = [];
  const edges: Run[] = [];
  // Every run of the shortest length has a pixel at a multiple of this.
  const step = Math.max(1, Math.floor(minLength / 2));
  for (let across = 0; across < size; across += 1) {
    for (let along = step; along < length; along += step) {
      if (!isDark(across, along)) continue;
      let from = along;
      while (from > 0 && isDark(across, from - 1)) from -= 1;
      let to = along + 1;
      while (to < length && isDark(across, to)) to += 1;
      along += Math.floor((to - 1 - along) / step) * step;
      if (to - from < minLength) continue;
      const run = { across, from, to };
      const isFilled = (distance: number) => isMostlyDark(isDark, run, across + distance, size);
      if (!isFilled(-thickness) && !isFilled(thickness)) lines.push(run);
      else if (!isFilled(-2) || !isFilled(2)) edges.push(run);
    }
  }
  return [...joinRuns(lines, thickness, false), ...joinRuns(edges, thickness, true)];
}

function isMostlyDark(isDark: IsDark, { from, to }: Run, across: number, size: number): boolean {
  if (across < 0 || across >= size) return false;
  let found = 0;
  for (let along = from; along < to; along += 1) if (isDark(across, along)) found += 1;
  return found >= (to - from) / 2;
}

/** Joins the runs of neighbouring rows, also those of a rule that is slightly skewed. */
function joinRuns(runs: Run[], thickness: number, isEdge: boolean): Rule[] {
  const rules: Rule[] = [];
  let open: Rule[] = [];
  for (const run of runs) {
    open = open.filter(({ last }) => last >= run.across - 2);
    const joined = open.find(({ from, to }) => from - thickness <= run.to && to + thickness >= run.from);
    if (joined) {
      joined.runs.push(run);
      joined.from = Math.min(joined.from, run.from);
      joined.to = Math.max(joined.to, run.to);
      joined.last = run.across;
    } else {
      const rule = { runs: [run], isEdge, from: run.from, to: run.to, first: run.across, last: run.across };
      rules.push(rule);
      open.push(rule);
    }
  }
  return rules;
}

type Group = { horizontal: Rule[]; vertical: Rule[] };

function groupCrossing(horizontal: Rule[], vertical: Rule[], thickness: number): Group[] {
  let groups: Group[] = vertical.map((rule) => ({ horizontal: [], vertical: [rule] }));
  for (const rule of horizontal) {
    const isCrossed = (group: Group) => group.vertical.some((other) => crosses(rule, other, thickness));
    const crossed = groups.filter(isCrossed);
    if (crossed.length === 0) continue;
    const joined = {
      horizontal: [...crossed.flatMap((group) => group.horizontal), rule],
      vertical: crossed.flatMap((group) => group.vertical),
    };
    groups = [...groups.filter((group) => !crossed.includes(group)), joined];
  }
  return groups;
}

function crosses(horizontal: Rule, vertical: Rule, thickness: number): boolean {
  const reaches = (rule: Rule, other: Rule) =>
    rule.from - thickness <= other.last && rule.to + thickness >= other.first;
  return reaches(horizontal, vertical) && reaches(vertical, horizontal);
}

function describeTable({ horizontal, vertical }: Group, thickness: number, image: GreyImage): RuledTable {
  const [y0, y1] = extent([...horizontal.map(middle), ...vertical.flatMap(({ from, to }) => [from, to])]);
  const [x0, x1] = extent([...vertical.map(middle), ...horizontal.flatMap(({ from, to }) => [from, to])]);
  const rows = between([y0, ...horizontal.map(middle), y1], thickness).map(([top, bottom]) => {
    const half = (top + bottom) / 2;
    const columns = vertical.filter(({ from, to }) => from <= half && to >= half).map(middle);
    return between([x0, ...columns, x1], thickness).map(([left, right]) => {
      const cell = { x0: left, y0: top, x1: right, y1: bottom };
      invertDarkCell(image, cell);
      return { ...cell, hasText: hasInk(image, cell) };
    });
  });
  return { bbox: { x0, y0, x1, y1 }, rows };
}

/** From top to bottom, and from left to right where tables stand side by side. */
function byPosition({ bbox: first }: RuledTable, { bbox: second }: RuledTable): number {
  const areBeside = first.y0 < second.y1 && second.y0 < first.y1;
  return areBeside ? first.x0 - second.x0 : first.y0 - second.y0;
}

function hasInk({ width, pixels }: GreyImage, cell: Box): boolean {
  let found = 0;
  forEachPixel(cell, width, edge, (at) => {
    if ((pixels[at] ?? 255) < dark) found += 1;
  });
  return found >= minInk;
}

function invertDarkCell({ width, pixels }: GreyImage, cell: Box): void {
  let [all, filled] = [0, 0];
  forEachPixel(cell, width, edge, (at) => {
    all += 1;
    if ((pixels[at] ?? 255) < darkFill) filled += 1;
  });
  if (filled <= all / 2) return;
  forEachPixel(cell, width, 0, (at) => {
    pixels[at] = 255 - (pixels[at] ?? 255);
  });
}

function forEachPixel({ x0, y0, x1, y1 }: Box, width: number, margin: number, visit: (at: number) => void): void {
  for (let y = Math.ceil(y0) + margin; y < y1 - margin; y += 1)
    for (let x = Math.ceil(x0) + margin; x < x1 - margin; x += 1) visit(y * width + x);
}

function middle({ first, last }: Rule): number {
  return (first + last) / 2;
}

function extent(values: number[]): [number, number] {
  return [Math.min(...values), Math.max(...values)];
}

/** The spaces between neighbouring places that are further apart than a rule is thick. */
function between(places: number[], thickness: number): [number, number][] {
  const sorted = places.toSorted((a, b) => a - b);
  return sorted.flatMap((place, index): [number, number][] => {
    const next = sorted[index + 1];
    return next !== undefined && next - place > thickness * 2 ? [[place, next]] : [];
  });
}
