import { z } from 'zod';

/** Confidence (0 to 100) below which Tesseract's text is noise, an unknown script, or a rotated page. */
export const minConfidence = 60;

const box = z.object({ x0: z.number(), y0: z.number(), x1: z.number(), y1: z.number() });
const word = z.object({ text: z.string(), confidence: z.number(), bbox: box }).transform(withoutLeader);
const line = z.object({
  words: z.array(word),
  bbox: box,
  baseline: box,
  rowAttributes: z.object({ rowHeight: z.number() }),
});
const block = z
  .object({ bbox: box, paragraphs: z.array(z.object({ lines: z.array(line) })).nullable() })
  .transform(({ bbox, paragraphs }) => ({ bbox, lines: (paragraphs ?? []).flatMap(({ lines }) => lines) }));
export const tesseractPage = z.object({ blocks: z.array(block).nullable().default(null) });

export type Box = z.infer<typeof box>;
export type Block = z.infer<typeof block>;
export type TesseractLine = z.infer<typeof line>;
export type Words = TesseractLine['words'];

const leader = /\.{3,}.*$/;

/** Removes the dots between a heading and its page number, which lower the confidence of the word beside them. */
function withoutLeader<Word extends { text: string; confidence: number }>(word: Word): Word {
  if (!leader.test(word.text)) return word;
  return { ...word, text: word.text.replace(leader, ''), confidence: Math.max(word.confidence, minConfidence) };
}

export function textOf(words: Words): string {
  return words.map(({ text }) => text).join(' ');
}

/** Number of characters without spaces. */
export function lengthOf(lines: TesseractLine[]): number {
  return lines.reduce((sum, { words }) => sum + words.reduce((length, { text }) => length + text.length, 0), 0);
}

export function usualHeight(lines: TesseractLine[]): number {
  const heights = lines.flatMap(({ words, rowAttributes }) =>
    Array(textOf(words).length).fill(rowAttributes.rowHeight),
  );
  heights.sort((a, b) => a - b);
  return heights[Math.floor(heights.length / 2)] ?? 1;
}

/** Ignores lines of one or two characters, which are higher than wide on an upright page, too. */
export function isSideways(lines: TesseractLine[]): boolean {
  const long = lines.filter(({ words }) => textOf(words).length > 2);
  return lengthOf(long.filter(({ bbox }) => bbox.y1 - bbox.y0 > bbox.x1 - bbox.x0)) > lengthOf(long) / 2;
}

/** Average confidence weighted by letters, so that one certain long word counts more than three doubtful specks. */
export function confidenceOf(words: Words): number {
  const length = words.reduce((sum, { text }) => sum + text.length, 0);
  return words.reduce((sum, { text, confidence }) => sum + text.length * confidence, 0) / Math.max(1, length);
}

export function isSure({ words }: TesseractLine): boolean {
  return confidenceOf(words) >= minConfidence;
}

export function surround(boxes: Box[]): Box {
  const least = (side: 'x0' | 'y0') => Math.min(...boxes.map((each) => each[side]));
  const most = (side: 'x1' | 'y1') => Math.max(...boxes.map((each) => each[side]));
  return { x0: least('x0'), y0: least('y0'), x1: most('x1'), y1: most('y1') };
}
