import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { findListings, isTypewritten, listingBlock } from './pdf-listings.ts';
import type { PdfLine, PdfPage } from './pdf-page.ts';
import { dropRunningLines } from './pdf-running-lines.ts';

type PdfBlock = { lines: PdfLine[]; kind: 'text' | 'table' | 'listing' };

const columnGap = 1.8;
/** A line distance above this multiple of the usual line distance starts a new paragraph. */
const paragraphSpacing = 1.3;
const rowSpacing = 3;
/** Font sizes with a relative difference below this value count as equal. */
const sizeTolerance = 0.08;

function isSameSize(a: PdfLine, b: PdfLine): boolean {
  return Math.abs(a.size - b.size) <= sizeTolerance * Math.max(a.size, b.size);
}

function splitIntoBlocks(lines: PdfLine[], isTypewrittenDocument: boolean): PdfBlock[] {
  const pitch = usualPitch(lines);
  const listings = findListings(lines, isTypewrittenDocument);
  const blocks: PdfBlock[] = [];
  for (const line of lines) {
    const kind = listings.has(line) ? 'listing' : line.gap > columnGap * line.size ? 'table' : 'text';
    const block = blocks.at(-1);
    const previous = block?.lines.at(-1);
    if (block && previous && block.kind === kind && isNext(previous, line, kind, pitch)) block.lines.push(line);
    else blocks.push({ lines: [line], kind });
  }
  return blocks;
}

function isNext(previous: PdfLine, line: PdfLine, kind: PdfBlock['kind'], pitch: number): boolean {
  const step = previous.baseline - line.baseline;
  if (kind === 'listing') return step > 0;
  if (kind === 'table') return step > 0 && step <= rowSpacing * line.size;
  const isSameStyle = isSameSize(previous, line) && previous.isBold === line.isBold;
  return isSameStyle && step > 0 && step <= paragraphSpacing * Math.max(pitch, line.size);
}

function usualPitch(lines: PdfLine[]): number {
  const steps: number[] = [];
  lines.forEach((line, index) => {
    const previous = lines[index - 1];
    if (!previous || !isSameSize(previous, line)) return;
    const step = previous.baseline - line.baseline;
    if (step > 0.5 * line.size && step < 2.5 * line.size) steps.push(step);
  });
  steps.sort((a, b) => a - b);
  // The lower third of the line distances is used, because the gaps between paragraphs make the mean and the median too
  // large.
  return steps[Math.floor(steps.length / 3)] ?? 1.2 * (lines[0]?.size ?? 0);
}

/** All words of a document that are not hyphenated at a line end, in lower case. Compounds keep their hyphens. */
type Vocabulary = ReadonlySet<string>;

const word = /\p{L}+(?:-\p{L}+)*/gu;
/**
 * Minimum length of the halves of a word hyphenated at a line end, to take it for a compound because both halves occur
 * as words; shorter words are too common ("with-out").
 */
const minHalfLength = 4;

/** Collects a document's words, which decide how words that are hyphenated at a line end are joined. */
function collectVocabulary(pages: PdfPage[]): Vocabulary {
  const words = new Set<string>();
  const lines = pages.flatMap((page) => page.lines);
  if (!lines.some((line) => line.isHyphenated)) return words;
  lines.forEach((line, index) => {
    const found = line.text.toLowerCase().match(word) ?? [];
    const start = lines[index - 1]?.isHyphenated ? 1 : 0;
    for (const each of found.slice(start, line.isHyphenated ? -1 : undefined)) words.add(each);
  });
  return words;
}

function hyphenBetween(before: string, after: string, vocabulary: Vocabulary): '' | '-' {
  const first = /[\p{L}-]+$/u.exec(before)?.[0].toLowerCase() ?? '';
  const second = /^\p{L}+/u.exec(after)?.[0].toLowerCase() ?? '';
  // "COVID-" + "19" and "A-" + "B" keep the hyphen: a hyphenated word goes on with a lower-case letter in the next
  // line.
  if (!/^\p{Ll}/u.test(after)) return '-';
  if (vocabulary.has(first + second)) return '';
  if (vocabulary.has(`${first}-${second}`)) return '-';
  const halves = [first, second];
  return halves.every((half) => half.length >= minHalfLength && vocabulary.has(half)) ? '-' : '';
}

const headingRatio = 1.15;
const headingLength = 150;
const headingLines = 3;
const deepestLevel = 4;

type HeadingLevel = (block: PdfBlock) => number | null;

function createHeadingLevel(pages: PdfPage[]): HeadingLevel {
  const bodySize = sizeOfMostText(pages);
  const isLarge = (size: number) => size > bodySize * headingRatio;
  const sizes = pages.flatMap((page) => page.lines.map((line) => roundedSize(line.size))).filter(isLarge);
  const levels = [...new Set(sizes)].sort((a, b) => b - a);
  return (block) => {
    const [line] = block.lines;
    const text = block.lines.map((each) => each.text).join(' ');
    const isShort = text.length <= headingLength && block.lines.length <= headingLines;
    if (!line?.size || block.kind !== 'text' || !isShort || !/\p{L}{2}/u.test(text)) return null;
    const size = roundedSize(line.size);
    if (isLarge(size)) return Math.min(deepestLevel, levels.indexOf(size) + 1);
    const isBoldTitle = line.isBold && size >= bodySize && /^[\p{Lu}\p{Lo}\p{N}]/u.test(text) && !/[.,;]$/.test(text);
    return isBoldTitle ? Math.min(deepestLevel, Math.max(1, levels.length)) + 1 : null;
  };
}

/** Font sizes are rounded to half points, because the same font varies slightly between pages. */
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

/** Layout yields to the event loop after this many pages: thousands of pages would block the process. */
const pagesPerTurn = 20;
/** A page's last line that is shorter than this is a page number or a note, not an unfinished sentence. */
const sentenceLength = 20;
/** Lines whose left edges differ by about this many font sizes are in one column. */
const indentation = 2;

const bullet = /^[•◦▪‣●○■□](?=\s)/;
const listItem = /^(?:[•◦▪‣●○■□–-]|\(?(?:\d{1,3}|\p{L})[.)])\s/u;

/** Assembles the Markdown of a document from the lines of its pages, in the order in which the file stores them. */
export async function pdfPagesToMarkdown(allPages: PdfPage[]): Promise<{ body: string; pageMap: number[] }> {
  const pages = dropRunningLines(allPages);
  const headingLevel = createHeadingLevel(pages);
  const vocabulary = collectVocabulary(pages);
  const pageMap: number[] = [];
  let body = '';
  const isTypewrittenDocument = isTypewritten(pages.flatMap((page) => page.lines));
  let previous: { line: PdfLine; isClosed: boolean; end: string } | undefined;

  for (const [index, page] of pages.entries()) {
    if (index % pagesPerTurn === pagesPerTurn - 1) await yieldToEventLoop();
    const blocks = splitIntoBlocks(page.lines, isTypewrittenDocument);
    const rightMargin = findRightMargins(page.lines);
    if (blocks.length === 0) pageMap.push(body.length);
    for (const [position, block] of blocks.entries()) {
      const [first] = block.lines;
      const last = block.lines.at(-1);
      if (!first || !last) continue;
      const level = headingLevel(block);
      const isClosed = level !== null || block.kind === 'listing';
      if (previous) {
        const isOneSentence = !isClosed && !previous.isClosed && continuesSentence(previous.line, first);
        body += isOneSentence ? softBreak(previous.line, first, vocabulary) : `${previous.end}\n\n`;
      }
      if (position === 0) pageMap.push(body.length);
      body += level
        ? `${'#'.repeat(level)} ${joinLines(block.lines, () => true, vocabulary)}`
        : blockText(block, rightMargin, vocabulary);
      previous = { line: last, isClosed, end: block.kind === 'listing' ? '' : ending(last) };
    }
  }
  return { body: body + (previous?.end ?? ''), pageMap };
}

function blockText(block: PdfBlock, rightMargin: RightMargin, vocabulary: Vocabulary): string {
  if (block.kind === 'listing') return listingBlock(block.lines);
  const isWrapped =
    block.kind === 'table'
      ? () => false
      : (line: PdfLine, next: PdfLine) =>
          !listItem.test(next.text) && (isInSentence(line, next) || reachesMargin(line, next, rightMargin));
  return joinLines(block.lines, isWrapped, vocabulary);
}

type IsWrapped = (line: PdfLine, next: PdfLine) => boolean;

/**
 * Joins the lines of one block. A hyphen at the end of the last line is left out, because the next block decides
 * whether it stays.
 */
function joinLines(lines: PdfLine[], isWrapped: IsWrapped, vocabulary: Vocabulary): string {
  let text = '';
  lines.forEach((line, index) => {
    const next = lines[index + 1];
    text += line.text.replace(bullet, '-').replace(/^#+(?=\s)/, '\\$&');
    if (!next) return;
    text += line.isHyphenated || isWrapped(line, next) ? softBreak(line, next, vocabulary) : '\n';
  });
  return text;
}

function softBreak(line: PdfLine, next: PdfLine, vocabulary: Vocabulary): string {
  return line.isHyphenated ? hyphenBetween(line.text, next.text, vocabulary) : ' ';
}

function ending(line: PdfLine): string {
  return line.isHyphenated ? '-' : '';
}

function reachesMargin(line: PdfLine, next: PdfLine, rightMargin: RightMargin): boolean {
  const [firstWord = ''] = next.text.split(' ', 1);
  const widthOfWord = ((next.right - next.left) / next.text.length) * (firstWord.length + 1);
  return line.right + widthOfWord > rightMargin(line) - line.size / 2;
}

type RightMargin = (line: PdfLine) => number;

/** Finds the right margin of each column in one pass, because a hostile page may have very many lines. */
function findRightMargins(lines: PdfLine[]): RightMargin {
  const margins = new Map<string, number>();
  const key = (size: number, column: number) => `${Math.round(size)} ${column}`;
  const columnOf = (line: PdfLine) => Math.round(line.left / (indentation * (line.size || 1)));
  for (const line of lines) {
    const own = key(line.size, columnOf(line));
    margins.set(own, Math.max(margins.get(own) ?? 0, line.right));
  }
  return (line) => {
    const column = columnOf(line);
    const near = [column - 1, column, column + 1].map((each) => margins.get(key(line.size, each)) ?? 0);
    return Math.max(...near);
  };
}

function continuesSentence(line: PdfLine, next: PdfLine): boolean {
  const isLong = line.isHyphenated || line.text.length >= sentenceLength;
  return isLong && isSameSize(line, next) && line.isBold === next.isBold && isInSentence(line, next);
}

function isInSentence(line: PdfLine, next: PdfLine): boolean {
  return /^\p{Ll}/u.test(next.text) && !/[.!?:;"”»)]$/.test(line.text);
}
