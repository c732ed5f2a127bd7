import { DOMParser } from 'linkedom';
import { NodeHtmlMarkdown } from 'node-html-markdown';

/**
 * Marks inside a sentence would stand between the words that a reader, a search and a quotation expect side by side,
 * and addresses of links are most of what some pages would embed: only their text stays.
 */
const inlineElements = 'a, abbr, b, cite, del, em, font, i, ins, mark, s, small, span, strike, strong, sub, sup, u';
const linesInCells = ['td', 'th']
  .flatMap((cell) => ['br', 'li', 'p', 'div'].map((line) => `${cell} ${line}`))
  .join(', ');

const translator = new NodeHtmlMarkdown({
  bulletMarker: '-',
  maxConsecutiveNewlines: 2,
  // Backslashes inside words break phrases too; a heading or a list by accident does less harm.
  globalEscape: [/(?!)/g, ''],
  lineStartEscape: [/(?!)/g, ''],
});

/** Headings, lists, quotations, code blocks and tables of an HTML fragment as Markdown (GFM), pictures by their text. */
export function htmlToMarkdown(html: string): string {
  const page = `<!doctype html><html><body>${html}</body></html>`;
  const document = new DOMParser().parseFromString(page, 'text/html');
  for (const caption of document.querySelectorAll('table > caption')) {
    caption.parentElement?.before(caption.textContent ?? '');
    caption.remove();
  }
  // A cell is one line of Markdown: what stood on lines of its own must not grow together.
  for (const line of document.querySelectorAll(linesInCells)) line.after(' ');
  for (const image of document.querySelectorAll('img')) image.replaceWith(image.getAttribute('alt') ?? '');
  for (const code of document.querySelectorAll('code')) {
    if (code.parentElement?.tagName !== 'PRE') code.replaceWith(code.textContent ?? '');
  }
  for (const element of document.querySelectorAll(inlineElements)) element.replaceWith(...element.childNodes);
  return translator.translate(document.body.innerHTML).replace(/^\|.*\|$/gm, withoutPadding);
}

/** Columns are padded to their widest cell: many blanks and dashes that say nothing. */
function withoutPadding(row: string): string {
  return row.replace(/ {2,}/g, ' ').replace(/(?<=\| )-+(?= \|)/g, '---');
}
