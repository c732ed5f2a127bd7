import type { PdfBlock } from './pdf-blocks.ts';
import type { PdfPage } from './pdf-page.ts';

/** How much larger than the body text a heading is. */
const headingRatio = 1.15;
const headingLength = 150;
const headingLines = 3;
const deepestLevel = 4;

/** Tells the level (1 to 5) of a block that is a heading by its size or weight; null for any other block. */
export type HeadingLevel = (block: PdfBlock) => number | null;

export function createHeadingLevel(pages: PdfPage[]): HeadingLevel {
  const bodySize = sizeOfMostText(pages);
  const isLarge = (size: number) => size > bodySize * headingRatio;
  const sizes = pages.flatMap((page) => page.lines.map((line) => roundedSize(line.size))).filter(isLarge);
  const levels = [...new Set(sizes)].sort((a, b) => b - a);
  return (block) => {
    const [line] = block.lines;
    const text = block.lines.map((each) => each.text).join(' ');
    const isShort = text.length <= headingLength && block.lines.length <= headingLines;
    if (!line?.size || block.isTable || !isShort || !/\p{L}{2}/u.test(text)) return null;
    const size = roundedSize(line.size);
    if (isLarge(size)) return Math.min(deepestLevel, levels.indexOf(size) + 1);
    const isBoldTitle = line.isBold && size >= bodySize && /^[\p{Lu}\p{Lo}\p{N}]/u.test(text) && !/[.,;]$/.test(text);
    return isBoldTitle ? Math.min(deepestLevel, Math.max(1, levels.length)) + 1 : null;
  };
}

/** Half points: the same font comes out a little different on different pages. */
function roundedSize(size: number): number {
  return Math.round(size * 2) / 2;
}

function sizeOfMostText(pages: PdfPage[]): number {
  const lengths = new Map<number, number>();
  for (const { lines } of pages) {
    for (const { size, text } of lines) {
      lengths.set(roundedSize(size), (lengths.get(roundedSize(size)) ?? 0) + text.length);
    }
  }
  return [...lengths].reduce((most, each) => (each[1] > most[1] ? each : most), [0, 0])[0];
}
