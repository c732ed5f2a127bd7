import type { PdfLine, PdfPage } from './pdf-page.ts';

/** Fewer pages prove no habit. */
const leastPages = 4;
const runningShare = 0.6;
/** How many lines at the top and at the bottom of a page may be running ones. */
const edgeLines = 3;

/** "Page 3", "p. 3 / 12", "Seite 3 von 12": how a line names its page. */
const pageName = /(?<!\p{L})(?:pages?|pg|p|seite|página|pagina|strona)\.?\s*\d+(?:\s*(?:of|von|de|di|z|\/)\s*\d+)?/giu;
const bareNumber = /^[^\p{L}\d]*(\d{1,4})[^\p{L}\d]*$/u;

/**
 * Takes out headers, footers and page numbers: lines that stand at the same height on most pages with the same text
 * but for the page's number. Between two pages they would cut sentences apart. The first appearance stays. Lines that
 * differ in any other number are data, such as the balance at the end of each page.
 */
export function dropRunningLines(pages: PdfPage[]): PdfPage[] {
  if (pages.length < leastPages) return pages;
  const counts = new Map<string, number>();
  for (const [index, page] of pages.entries()) {
    for (const key of new Set(edges(page).map((line) => lineKey(line, index))))
      counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const seen = new Set<string>();
  return pages.map((page, index) => {
    const running = new Set<PdfLine>();
    for (const line of edges(page)) {
      const key = lineKey(line, index);
      if ((counts.get(key) ?? 0) < pages.length * runningShare) continue;
      if (seen.has(key)) running.add(line);
      seen.add(key);
    }
    return { ...page, lines: page.lines.filter((line) => !running.has(line)) };
  });
}

function edges({ lines }: PdfPage): PdfLine[] {
  const byHeight = [...lines].sort((a, b) => b.baseline - a.baseline);
  return [...new Set([...byHeight.slice(0, edgeLines), ...byHeight.slice(-edgeLines)])];
}

/** The same for lines that are the same header or footer on their pages. A number alone has to count the pages. */
function lineKey({ baseline, text }: PdfLine, pageIndex: number): string {
  const number = bareNumber.exec(text)?.[1];
  const words = number === undefined ? text.replace(pageName, '#') : `# ${Number(number) - pageIndex}`;
  return `${Math.round(baseline / 4)} ${words}`;
}
