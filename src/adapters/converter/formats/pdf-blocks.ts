import type { PdfLine } from './pdf-page.ts';

/** Lines that belong together: a paragraph, a heading, a list, or rows of a table. */
export type PdfBlock = { lines: PdfLine[]; isTable: boolean };

/** Empty space inside a line, in font sizes, from which on the line is a row of a table. */
const columnGap = 1.8;
/** The distance of two lines, in usual distances, from which on a new paragraph starts. */
const paragraphSpacing = 1.3;
/** Rows may be this many font sizes apart. */
const rowSpacing = 3;
/** Sizes that differ by less are the same to the eye. */
const sizeTolerance = 0.08;

export function isSameSize(a: PdfLine, b: PdfLine): boolean {
  return Math.abs(a.size - b.size) <= sizeTolerance * Math.max(a.size, b.size);
}

/** In the order of the document; a step upwards (the next column) starts a new block. */
export function splitIntoBlocks(lines: PdfLine[]): PdfBlock[] {
  const pitch = usualPitch(lines);
  const blocks: PdfBlock[] = [];
  for (const line of lines) {
    const isTable = line.gap > columnGap * line.size;
    const block = blocks.at(-1);
    const previous = block?.lines.at(-1);
    if (block && previous && block.isTable === isTable && isNext(previous, line, isTable, pitch))
      block.lines.push(line);
    else blocks.push({ lines: [line], isTable });
  }
  return blocks;
}

function isNext(previous: PdfLine, line: PdfLine, isTable: boolean, pitch: number): boolean {
  const step = previous.baseline - line.baseline;
  if (isTable) return step > 0 && step <= rowSpacing * line.size;
  const isSameStyle = isSameSize(previous, line) && previous.isBold === line.isBold;
  return isSameStyle && step > 0 && step <= paragraphSpacing * Math.max(pitch, line.size);
}

/** The most common distance between lines of the page's text. */
function usualPitch(lines: PdfLine[]): number {
  const steps: number[] = [];
  lines.forEach((line, index) => {
    const previous = lines[index - 1];
    if (!previous || !isSameSize(previous, line)) return;
    const step = previous.baseline - line.baseline;
    if (step > 0.5 * line.size && step < 2.5 * line.size) steps.push(step);
  });
  steps.sort((a, b) => a - b);
  // Paragraph spacing only widens steps, so the usual one is in the lower half.
  return steps[Math.floor(steps.length / 3)] ?? 1.2 * (lines[0]?.size ?? 0);
}
