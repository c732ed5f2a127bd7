import type { PdfLine, PdfPage } from './pdf-page.ts';

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
export function dropRunningLines(pages: PdfPage[]): PdfPage[] {
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
