import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { z } from 'zod';
import type { OcrLine } from '#src/ports/documents.ts';
import { cleanText } from '../parsed-document.ts';
import { isGlyphCodes } from './glyph-codes.ts';
import { columnWidth, findListings, isTypewritten, listingBlock } from './pdf-listings.ts';

/** A line on a PDF page. Coordinates and sizes are in points; `gap` is the widest empty space inside the line. */
type PdfLine = {
  text: string;
  left: number;
  right: number;
  baseline: number;
  size: number;
  isBold: boolean;
  gap: number;
  /** True if the line ends in a hyphenated word; `text` does not contain the hyphen. */
  isHyphenated: boolean;
  /** The line with all its spaces and signs if its font is monospaced. */
  code?: string;
};

/**
 * `isPicture`: OCR must read the page, because it shows something and has almost no text, as in a scan, or because its
 * text was no text. `lines` are the sound text of the page itself, such as a stamp.
 */
export type PdfPage = { lines: PdfLine[]; isPicture: boolean };

/** PDFium replaces a hyphen at a line end by one of these marks. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: one of the marks is a control character
const endMark = /[\u0002\u00ad\ufffe]\s*$/;

const [text, position, flag] = [z.string(), z.number(), z.boolean()];
const rawLine = z.tuple([text, position, position, position, position, flag, position, flag]);

export const pdfDocumentMessageSchema = z.object({ pageCount: z.int().positive(), title: z.string() });

export const pdfPageMessageSchema = z
  .object({ lines: z.array(rawLine), isPicture: z.boolean(), unmapped: z.number() })
  .transform(({ lines, isPicture, unmapped }): PdfPage => {
    const text = lines.map(([raw]) => raw.replace(endMark, '')).join('\n');
    if (isGlyphCodes(text, unmapped)) return { lines: [], isPicture: true };
    return { lines: readLines(lines), isPicture };
  });

/** A page from the lines that OCR has read, after the text that the page itself has. */
export function pdfPageFromOcr(lines: readonly OcrLine[], own: PdfPage['lines'] = []): PdfPage {
  return { lines: [...own, ...readLines(lines)], isPicture: true };
}

type RawLine = z.infer<typeof rawLine> | OcrLine;

function readLines(lines: readonly RawLine[]): PdfLine[] {
  return arrange(lines.map(readLine));
}

function readLine([raw, left, right, baseline, size, isBold, gap, isMonospaced]: RawLine): PdfLine {
  const isMarked = endMark.test(raw);
  const text = cleanText(plainLetters(raw)).replace(/\s+/g, ' ').trim();
  const isCut = isMarked || /\p{L}[-\u2010]$/u.test(text);
  const kept = isMarked ? text : text.replace(/(?<=\p{L})[-\u2010]$/u, '');
  const line = { text: kept, left, right, baseline, size, isBold, gap, isHyphenated: isCut };
  return isMonospaced ? { ...line, code: cleanText(raw.replace(endMark, '-')).trim() } : line;
}

function plainLetters(text: string): string {
  return text.replace(/[\ufb00-\ufb06]/g, (ligature) => ligature.normalize('NFKC')).replace(/\u21b5(?=\p{L})/gu, 'ff');
}

/** Moves vertical text in the margin (stamps, axis labels) to the front, so that it does not interrupt a sentence. */
function arrange(lines: PdfLine[]): PdfLine[] {
  const filled = lines.filter((line) => line.text);
  const upright = filled.filter((line) => line.size > 0);
  return [...filled.filter((line) => line.size <= 0), ...joinPieces(upright)];
}

/** Joins pieces of one line, because PDFium starts a new line at superscripts and font changes. */
function joinPieces(lines: PdfLine[]): PdfLine[] {
  const joined: PdfLine[] = [];
  for (const line of lines) {
    const previous = joined.at(-1);
    if (!previous || !isSameLine(previous, line)) joined.push(line);
    else joined[joined.length - 1] = joinPair(previous, line);
  }
  return joined;
}

function isSameLine(previous: PdfLine, line: PdfLine): boolean {
  const size = Math.max(previous.size, line.size);
  const isBeside = line.left > previous.right - size / 2;
  return isBeside && !previous.isHyphenated && Math.abs(previous.baseline - line.baseline) < size / 2;
}

function joinPair(previous: PdfLine, line: PdfLine): PdfLine {
  const main = line.text.length > previous.text.length ? line : previous;
  const between = line.left - previous.right;
  const isApart = between > main.size / 8 && !/^[.,;:)\]]/.test(line.text);
  const columns = Math.max(0, Math.round(between / columnWidth([previous, line])));
  return {
    ...(previous.code && line.code && { code: previous.code + ' '.repeat(columns) + line.code }),
    text: previous.text + (isApart ? ' ' : '') + line.text,
    left: previous.left,
    right: line.right,
    baseline: main.baseline,
    size: main.size,
    isBold: previous.isBold && line.isBold,
    gap: Math.max(previous.gap, line.gap, between),
    isHyphenated: line.isHyphenated,
  };
}

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

const minPagesForRunningLines = 4;
const runningShare = 0.6;
/** Headers change with the chapter: this many lines within `nearPages` pages make one that is not on most pages. */
const minNearLines = 3;
const nearPages = 8;
/** A first or last line with space around it is a header or footer if it is on two pages at most this far apart. */
const nextPages = 2;
const headerSpacing = 1.6;
/** Running headers and footers are within this many lines of a page's top or bottom. */
const edgeLines = 3;
/** A page with less text, without its headers and footers, is empty, and not the same as another one. */
const minTextOfCopy = 60;

/** Matches page labels such as "Page 3", "p. 3 / 12" and "Seite 3 von 12". */
const pageName = /(?<!\p{L})(?:pages?|pg|p|seite|página|pagina|strona)\.?\s*\d+(?:\s*(?:of|von|de|di|z|\/)\s*\d+)?/giu;
const bareNumber = /^[^\p{L}\d]*(?:[\p{L}\d]{1,2}[-–.])?(\d{1,4})(?:\s*(?:of|von|de|\/)\s*\d{1,4})?[^\p{L}\d]*$/u;
const romanNumber = /^[^\p{L}\d]*([ivxl]{1,8})[^\p{L}\d]*$/u;
/** A page number beside a header: at the other side of the page, or behind a sign. */
const outerNumber = /^(\d{1,4})(?=\s)|(?<=\s)(\d{1,4})$/;

/**
 * Keeps only the first appearance of each running header, footer and page label, because these lines split sentences.
 * Repeated lines that differ in other numbers are kept as data, such as the balance at the end of each page, and so are
 * all lines of pages that are equal.
 */
function dropRunningLines(pages: PdfPage[]): PdfPage[] {
  if (pages.length < minPagesForRunningLines) return pages;
  const edgesOfPages = pages.map((page, index) => edges(page).map((edge) => ({ ...edge, key: lineKey(edge, index) })));
  const places = new Map<string, number[]>();
  for (const [index, found] of edgesOfPages.entries()) {
    for (const key of new Set(found.map((edge) => edge.key))) {
      const known = places.get(key);
      if (known) known.push(index);
      else places.set(key, [index]);
    }
  }
  const seen = new Set<string>();
  const texts = new Set<string>();
  return pages.map((page, index) => {
    const running = new Set<PdfLine>();
    for (const { line, key, isApart } of edgesOfPages[index] ?? []) {
      if (!isRunning(places.get(key) ?? [], index, isApart, pages.length)) continue;
      if (seen.has(key)) running.add(line);
      seen.add(key);
    }
    const keys = new Map(edgesOfPages[index]?.map(({ line, key }) => [line, key]));
    const text = page.lines.map((line) => keys.get(line) ?? line.text).join('\n');
    const isCopy = texts.has(text) && text.length >= minTextOfCopy;
    texts.add(text);
    return isCopy ? page : { ...page, lines: page.lines.filter((line) => !running.has(line)) };
  });
}

/** `places` are the indexes of the pages with a line, in order. */
function isRunning(places: number[], index: number, isApart: boolean, pageCount: number): boolean {
  if (places.length >= pageCount * runningShare) return true;
  const near = places.filter((place) => Math.abs(place - index) <= nearPages);
  // Left and right pages may have different headers.
  const isDense = 2 * near.length > (near.at(-1) ?? 0) - (near[0] ?? 0);
  if (near.length >= minNearLines && isDense) return true;
  return isApart && near.some((place) => place !== index && Math.abs(place - index) <= nextPages);
}

/** `isApart`: the line is the first or last of its page, with space between it and the text. */
type Edge = { line: PdfLine; isApart: boolean };

function edges({ lines }: PdfPage): Edge[] {
  const byHeight = [...lines].sort((a, b) => b.baseline - a.baseline);
  const all = new Set([...byHeight.slice(0, edgeLines), ...byHeight.slice(-edgeLines)]);
  const isApart = (line: PdfLine, next: PdfLine | undefined) =>
    next !== undefined && Math.abs(line.baseline - next.baseline) > headerSpacing * line.size;
  return [...all].map((line) => ({
    line,
    isApart:
      (line === byHeight[0] && isApart(line, byHeight[1])) ||
      (line === byHeight.at(-1) && isApart(line, byHeight.at(-2))),
  }));
}

/**
 * Key of a line that is equal for a running header or footer on all pages. For a page number, the key is its difference
 * to the page index, which is constant.
 */
function lineKey({ line: { baseline, text, left, right, gap, size } }: Edge, pageIndex: number): string {
  const place = Math.round(baseline / 4);
  const number = bareNumber.exec(text)?.[1];
  if (number !== undefined) return `${place} # ${Number(number) - pageIndex}`;
  const roman = romanNumber.exec(text)?.[1];
  if (roman !== undefined) return `${place} # roman ${romanValue(roman) - pageIndex}`;
  // Of some lines PDFium does not return the gap, but they are wider than their letters.
  const isWide = gap > size || right - left > size * text.length * (/[a-z]{2}/i.test(text) ? 0.7 : 1.1);
  const isBeside = isWide || /[|·•–—]/.test(text);
  const words = isBeside ? text.replace(outerNumber, (digits) => `# ${Number(digits) - pageIndex}`) : text;
  return `${place} ${words.replace(pageName, '#')}`;
}

function romanValue(roman: string): number {
  const values = [...roman].map((letter) => ({ i: 1, v: 5, x: 10 })[letter] ?? 50);
  return values.reduce((sum, value, index) => (value < (values[index + 1] ?? 0) ? sum - value : sum + value), 0);
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
