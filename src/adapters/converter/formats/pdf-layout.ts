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
/** Lines whose left ends differ by at most this many font sizes are in the same column. */
const indentation = 6;

const bullet = /^[•◦▪‣●○■□·–](?=\s)/;
const listItem = /^(?:[•◦▪‣●○■□·–-]|\(?(?:\d{1,3}|\p{L})[.)])\s/u;

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
        : blockText(block, page, vocabulary);
      previous = { line: last, isHeading: level !== null };
    }
  }
  return { body: previous ? body + ending(previous.line) : body, pageMap };
}

function blockText(block: PdfBlock, page: PdfPage, vocabulary: Vocabulary): string {
  const isWrapped = block.isTable
    ? () => false
    : (line: PdfLine, next: PdfLine) => !listItem.test(next.text) && reachesMargin(line, next, page);
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
function reachesMargin(line: PdfLine, next: PdfLine, page: PdfPage): boolean {
  const column = page.lines.filter(
    (other) => isSameSize(other, line) && Math.abs(other.left - line.left) <= indentation * line.size,
  );
  const margin = Math.max(...column.map((other) => other.right));
  const [firstWord = ''] = next.text.split(' ', 1);
  const widthOfWord = ((next.right - next.left) / next.text.length) * (firstWord.length + 1);
  return line.right + widthOfWord > margin - line.size / 2;
}

/** Whether a sentence runs on over the end of a page, a column or a paragraph that only looked like one. */
function goesOn(line: PdfLine, next: PdfLine): boolean {
  if (!isSameSize(line, next) || line.isBold !== next.isBold || !/^\p{Ll}/u.test(next.text)) return false;
  return line.isHyphenated || (line.text.length >= sentenceLength && !/[.!?:;"”»)]$/.test(line.text));
}
