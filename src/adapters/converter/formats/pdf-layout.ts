import { setImmediate as yieldToOthers } from 'node:timers/promises';
import { isSameSize, type PdfBlock, splitIntoBlocks } from './pdf-blocks.ts';
import { createHeadingLevel } from './pdf-headings.ts';
import { collectVocabulary, hyphenBetween, type Vocabulary } from './pdf-hyphenation.ts';
import type { PdfLine, PdfPage } from './pdf-page.ts';
import { dropRunningLines } from './pdf-running-lines.ts';

/** Thousands of pages take long enough to hold up everything else in this process. */
const pagesPerTurn = 20;
/** A shorter line at the end of a page is a number or a note, not a sentence that goes on. */
const sentenceLength = 20;
/** Lines whose left ends differ by about this many font sizes are in the same column. */
const indentation = 2;

const bullet = /^[•◦▪‣●○■□](?=\s)/;
const listItem = /^(?:[•◦▪‣●○■□–-]|\(?(?:\d{1,3}|\p{L})[.)])\s/u;

/**
 * Puts a document together again from its lines: paragraphs with whole phrases, headings by size or weight, one line
 * for each row of a table. The order is the document's own. Page n starts at `pageMap[n - 1]` of the body.
 */
export async function layOutPages(allPages: PdfPage[]): Promise<{ body: string; pageMap: number[] }> {
  const pages = dropRunningLines(allPages);
  const headingLevel = createHeadingLevel(pages);
  const vocabulary = collectVocabulary(pages);
  const pageMap: number[] = [];
  let body = '';
  let previous: { line: PdfLine; isHeading: boolean } | undefined;

  for (const [index, page] of pages.entries()) {
    if (index % pagesPerTurn === pagesPerTurn - 1) await yieldToOthers();
    const blocks = splitIntoBlocks(page.lines);
    const rightMargin = findRightMargins(page.lines);
    if (blocks.length === 0) pageMap.push(body.length);
    for (const [position, block] of blocks.entries()) {
      const [first] = block.lines;
      const last = block.lines.at(-1);
      if (!first || !last) continue;
      const level = headingLevel(block);
      if (previous) {
        const isOneSentence = !level && !previous.isHeading && goesOn(previous.line, first);
        body += isOneSentence ? softBreak(previous.line, first, vocabulary) : `${ending(previous.line)}\n\n`;
      }
      if (position === 0) pageMap.push(body.length);
      body += level
        ? `${'#'.repeat(level)} ${joinLines(block.lines, () => true, vocabulary)}`
        : blockText(block, rightMargin, vocabulary);
      previous = { line: last, isHeading: level !== null };
    }
  }
  return { body: previous ? body + ending(previous.line) : body, pageMap };
}

function blockText(block: PdfBlock, rightMargin: RightMargin, vocabulary: Vocabulary): string {
  const isWrapped = block.isTable
    ? () => false
    : (line: PdfLine, next: PdfLine) =>
        !listItem.test(next.text) && (isInSentence(line, next) || reachesMargin(line, next, rightMargin));
  return joinLines(block.lines, isWrapped, vocabulary);
}

type IsWrapped = (line: PdfLine, next: PdfLine) => boolean;

/** The last line's ending is left open: what follows decides about its hyphen. */
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

/** Whether the line ended only because the first word of the next one had no room. */
function reachesMargin(line: PdfLine, next: PdfLine, rightMargin: RightMargin): boolean {
  const [firstWord = ''] = next.text.split(' ', 1);
  const widthOfWord = ((next.right - next.left) / next.text.length) * (firstWord.length + 1);
  return line.right + widthOfWord > rightMargin(line) - line.size / 2;
}

type RightMargin = (line: PdfLine) => number;

/** How far lines of the same size in the same column reach. One pass: a hostile page may have very many lines. */
function findRightMargins(lines: PdfLine[]): RightMargin {
  const margins = new Map<string, number>();
  const key = (size: number, place: number) => `${Math.round(size)} ${place}`;
  const placeOf = (line: PdfLine) => Math.round(line.left / (indentation * (line.size || 1)));
  for (const line of lines) {
    const own = key(line.size, placeOf(line));
    margins.set(own, Math.max(margins.get(own) ?? 0, line.right));
  }
  return (line) => {
    const place = placeOf(line);
    const near = [place - 1, place, place + 1].map((each) => margins.get(key(line.size, each)) ?? 0);
    return Math.max(...near);
  };
}

/** Whether a sentence runs on over the end of a page, a column or a paragraph that only looked like one. */
function goesOn(line: PdfLine, next: PdfLine): boolean {
  const isLong = line.isHyphenated || line.text.length >= sentenceLength;
  return isLong && isSameSize(line, next) && line.isBold === next.isBold && isInSentence(line, next);
}

function isInSentence(line: PdfLine, next: PdfLine): boolean {
  return /^\p{Ll}/u.test(next.text) && !/[.!?:;"”»)]$/.test(line.text);
}
