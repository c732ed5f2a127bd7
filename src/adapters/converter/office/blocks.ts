/**
 * A block of a document in any format. Texts are one line of Markdown, except for paragraphs, which may have several.
 */
export type TextBlock =
  | { kind: 'heading'; level: number; text: string }
  | { kind: 'paragraph'; text: string }
  /** `label`: the displayed list number ("3.", "4.1"), or null for a bullet. `depth`: 0 for the outermost list. */
  | { kind: 'item'; depth: number; label: string | null; text: string }
  | { kind: 'table'; rows: string[][] }
  /** A footnote or comment that is placed after the text it belongs to, as Markdown. */
  | { kind: 'aside'; text: string };

export function paragraphBlocks(text: string): TextBlock[] {
  return text.trim() === '' ? [] : [{ kind: 'paragraph', text: text.trim() }];
}

export function footnoteBlock(mark: string, text: string): TextBlock {
  return { kind: 'aside', text: `[^${mark}]: ${oneLine(text)}` };
}

/** Renders a comment or speaker notes as a blockquote, such as "> Comment by Ann: …". */
export function quotedCommentBlock(name: string, text: string): TextBlock {
  const [first = '', ...rest] = text.trim().split('\n');
  return { kind: 'aside', text: [`> ${name}: ${first}`, ...rest.map((line) => `> ${line}`.trimEnd())].join('\n') };
}

/** Makes links only of web and mail addresses; bookmarks and paths on the author's computer stay plain text. */
export function markdownLink(text: string, address: string | undefined): string {
  const isFollowed = address !== undefined && /^(?:https?|mailto):[^\s()<>]+$/i.test(address);
  const bare = address?.replace(/^mailto:/i, '').replace(/\/$/, '') ?? '';
  if (!isFollowed || text.trim() === '' || text.includes(bare)) return text;
  return `[${text}](${address})`;
}

/** Appends one by one, because `list.push(...more)` fails for more blocks than a call may have arguments. */
export function appendTextBlocks(list: TextBlock[], more: Iterable<TextBlock>): void {
  for (const block of more) list.push(block);
}

export function renderTextBlocksAsMarkdown(blocks: TextBlock[]): string {
  let openItems: OpenItem[] = [];
  let body = '';
  let previous: TextBlock | undefined;
  for (const block of blocks) {
    const isSameList = block.kind === 'item' && previous?.kind === 'item';
    if (!isSameList) openItems = [];
    body += (body === '' ? '' : isSameList ? '\n' : '\n\n') + renderBlock(block, openItems);
    previous = block;
  }
  return body;
}

/** A list item in which following items may be nested; nested items are indented to `textColumn`. */
type OpenItem = { depth: number; textColumn: number };

function renderBlock(block: TextBlock, openItems: OpenItem[]): string {
  if (block.kind === 'table') {
    const [header = [], ...rows] = block.rows;
    return renderMarkdownTable(header, rows);
  }
  if (block.kind === 'heading') return `${'#'.repeat(Math.min(block.level, 6))} ${oneLine(block.text)}`;
  if (block.kind === 'item') return renderItem(block, openItems);
  return block.text;
}

function renderItem({ depth, label, text }: TextBlock & { kind: 'item' }, openItems: OpenItem[]): string {
  while ((openItems.at(-1)?.depth ?? -1) >= depth) openItems.pop();
  const column = openItems.at(-1)?.textColumn ?? 0;
  const isNumber = label !== null && /^\d{1,9}[.)]$/.test(label);
  const marker = isNumber ? label : '-';
  openItems.push({ depth, textColumn: column + marker.length + 1 });
  return `${' '.repeat(column)}${marker} ${oneLine(isNumber ? text : `${label ?? ''} ${text}`)}`;
}

/** Drops repeated blocks: files often store the same header again for first pages and for left pages. */
export function removeRepeatedTextBlocks(blocks: TextBlock[]): TextBlock[] {
  return [...new Map(blocks.map((block) => [JSON.stringify(block), block])).values()];
}

/** Returns a table cell's text on one line, and the notes and comments that must follow the table. */
export function flattenTableCell(blocks: TextBlock[]): { text: string; asides: TextBlock[] } {
  const asides = blocks.filter((block) => block.kind === 'aside');
  return { text: blocks.map(cellLine).filter(Boolean).join(' '), asides };
}

function cellLine(block: TextBlock): string {
  if (block.kind === 'aside') return '';
  if (block.kind === 'table') return block.rows.map((row) => row.filter(Boolean).join(', ')).join('; ');
  return oneLine(block.kind === 'item' ? `${block.label ?? '-'} ${block.text}` : block.text);
}

function oneLine(text: string): string {
  return text.trim().replace(/\s+/g, ' ');
}

/** Tables up to this many characters fit into one chunk of the default size. */
const wholeTableLength = 1_500;

/**
 * Renders a small table as a Markdown table. A table that will be split into chunks becomes a line of `column: value`
 * pairs for each row, because a row must be understandable in a chunk without the table's header.
 */
export function renderMarkdownTable(header: string[], rows: string[][]): string {
  const cells = [header, ...rows].map((row) => row.map((cell) => cell.replace(/\s+/g, ' ')));
  const length = cells.flat().reduce((sum, cell) => sum + cell.length + 3, 0);
  return length <= wholeTableLength ? markdownTable(cells) : recordLines(cells);
}

function markdownTable(cells: string[][]): string {
  const width = Math.max(...cells.map((row) => row.length));
  const line = (row: string[]) => `| ${row.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  const [header = [], ...rows] = cells.map((row) => Array.from({ length: width }, (_, column) => row[column] ?? ''));
  return [line(header), line(header.map(() => '---')), ...rows.map(line)].join('\n');
}

function recordLines([header = [], ...rows]: string[][]): string {
  return rows.map((row) => row.flatMap((cell, column) => labelled(header[column], cell)).join('; ')).join('\n');
}

function labelled(column: string | undefined, cell: string): string[] {
  if (cell === '') return [];
  return [column ? `${column}: ${cell}` : cell];
}
