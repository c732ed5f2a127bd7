export type MarkdownBlockKind = 'text' | 'heading' | 'list' | 'table' | 'code' | 'caption';

/**
 * A block of a Markdown body, `body.slice(start, end)`, including trailing blank lines. `headingPath` lists the
 * headings above the block, outermost first; that of a heading ends with the heading itself.
 */
export type MarkdownBlock = { kind: MarkdownBlockKind; start: number; end: number; headingPath: readonly string[] };

const fence = /^ {0,3}(`{3,}|~{3,})/;
const atxMark = /^ {0,3}(#{1,6})(?=[ \t]|$)/;
const setextUnderline = /^ {0,3}(=+|-{2,})[ \t]*$/;
const listItem = /^\s*(?:[-*+•]|\d{1,9}[.)])[ \t]+\S/;
const tableRow = /^\s*\|.*\|\s*$/;
const captionLine =
  /^\s*(?:!\[[^\]]*\]\([^)]*\)\s*$|[*_]{0,2}(?:figure|fig\.|table|chart|exhibit)\s+\d+(?:[.-]\d+)*\s*[:.–—-])/i;

const maxTitleLength = 200;

/** Splits a Markdown body into blocks without gaps or overlaps. Never fails: unknown syntax is text. */
export function parseMarkdownBlocks(body: string): MarkdownBlock[] {
  const blocks: MarkdownBlock[] = [];
  const headings: { level: number; title: string }[] = [];
  let openFence: string | null = null;
  let afterBlankLine = true;

  const path = () => headings.map((heading) => heading.title);
  const enter = (level: number, title: string) => {
    while ((headings.at(-1)?.level ?? 0) >= level) headings.pop();
    headings.push({ level, title: plainTitle(title) });
  };
  /**
   * Offset at which the first line of the last block ends. It is stored, because a search for it at each line would
   * take quadratic time.
   */
  let firstLineEnd = 0;
  const open = (kind: MarkdownBlockKind, start: number, end: number) => {
    firstLineEnd = end;
    blocks.push({ kind, start, end, headingPath: path() });
  };

  for (const { start, end } of lineSpansOf(body)) {
    const line = body.slice(start, end).trimEnd();
    const current = blocks.at(-1);

    if (openFence !== null && current) {
      current.end = end;
      const closing = fence.exec(line)?.[1];
      if (closing?.startsWith(openFence) && line.trim() === closing) openFence = null;
      afterBlankLine = false;
      continue;
    }
    if (line.trim() === '') {
      if (current) current.end = end;
      else open('text', start, end);
      afterBlankLine = true;
      continue;
    }

    const heading = atxMark.exec(line);
    const fenceMark = fence.exec(line)?.[1];
    const continues = current !== undefined && !afterBlankLine;
    if (heading) {
      enter((heading[1] ?? '#').length, line.slice(heading[0].length));
      open('heading', start, end);
    } else if (fenceMark) {
      openFence = fenceMark;
      open('code', start, end);
    } else if (continues && current.kind === 'text' && current.end === firstLineEnd && setextUnderline.test(line)) {
      enter(line.trim().startsWith('=') ? 1 : 2, body.slice(current.start, current.end));
      blocks[blocks.length - 1] = { kind: 'heading', start: current.start, end, headingPath: path() };
    } else if (tableRow.test(line)) {
      if (continues && current.kind === 'table') current.end = end;
      else open('table', start, end);
    } else if (listItem.test(line)) {
      if (current?.kind === 'list') current.end = end;
      else open('list', start, end);
    } else if (captionLine.test(line) && !(continues && current.kind === 'text')) {
      open('caption', start, end);
    } else if (current?.kind === 'list' && (continues || /^\s{2,}/.test(line))) {
      current.end = end;
    } else if (continues && (current.kind === 'text' || current.kind === 'caption')) {
      current.end = end;
    } else {
      open('text', start, end);
    }
    afterBlankLine = false;
  }
  const first = blocks[0];
  const second = blocks[1];
  if (first && second && body.slice(first.start, first.end).trim() === '') {
    second.start = first.start;
    blocks.shift();
  }
  return blocks;
}

export function* lineSpansOf(text: string, start = 0, end = text.length): Generator<{ start: number; end: number }> {
  const breaks = /\r\n|\n|\r/g;
  breaks.lastIndex = start;
  let lineStart = start;
  for (let match = breaks.exec(text); match && match.index < end; match = breaks.exec(text)) {
    const lineEnd = Math.min(end, breaks.lastIndex);
    yield { start: lineStart, end: lineEnd };
    lineStart = lineEnd;
  }
  if (lineStart < end) yield { start: lineStart, end };
}

/** Removes markup from a Markdown heading. Truncates the heading first, because a line may be megabytes long. */
function plainTitle(markdown: string): string {
  return markdown
    .trim()
    .slice(0, maxTitleLength)
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/[*_`]+/g, '')
    .replace(/\s+/g, ' ')
    .replace(/(?:^| )#+$/, '')
    .trim();
}
