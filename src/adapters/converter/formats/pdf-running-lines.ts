import type { PdfLine, PdfPage } from './pdf-page.ts';

/** Fewer pages prove no habit. */
const leastPages = 4;
const runningShare = 0.6;
/** How many lines at the top and at the bottom of a page may be running ones. */
const edgeLines = 3;

/**
 * Takes out headers, footers and page numbers: lines that stand at the same height on most pages with the same words
 * but for the numbers. Between two pages they would cut sentences apart. The first appearance stays.
 */
export function dropRunningLines(pages: PdfPage[]): PdfPage[] {
  if (pages.length < leastPages) return pages;
  const counts = new Map<string, number>();
  for (const page of pages) {
    for (const key of new Set(edges(page).map(lineKey))) counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const seen = new Set<string>();
  return pages.map((page) => {
    const running = new Set<PdfLine>();
    for (const line of edges(page)) {
      const key = lineKey(line);
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

function lineKey(line: PdfLine): string {
  return `${Math.round(line.baseline / 4)} ${line.text.replace(/\d+/g, '#')}`;
}
