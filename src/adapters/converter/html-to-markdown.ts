import { DOMParser, HTMLElement } from 'linkedom';
import { NodeHtmlMarkdown } from 'node-html-markdown';
import { appError } from '#src/errors.ts';

/** Deeper pages are no pages; the parsers would take hours to find that out. */
const deepestNesting = 2_000;
/** Elements that a following one closes without being asked, or that hold nothing. */
const selfClosing =
  /^(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr|p|li|d[td]|t[dhr]|tbody|thead|tfoot|option|optgroup)$/;

/** To be asked before HTML of strangers is parsed. Throws `corrupt_document` for an endless nesting. */
export function checkNesting(html: string): void {
  let depth = 0;
  for (const [, slash, name = ''] of html.matchAll(/<(\/?)([a-z][a-z0-9]*)/gi)) {
    if (!selfClosing.test(name.toLowerCase())) depth = slash ? Math.max(0, depth - 1) : depth + 1;
    if (depth > deepestNesting) {
      throw appError('corrupt_document', { detail: `The page nests more than ${deepestNesting} elements.` });
    }
  }
}

/**
 * Marks inside a sentence would stand between the words that a reader, a search and a quotation expect side by side,
 * and addresses of links are most of what some pages would embed: only their text stays.
 */
const inlineElements = 'a, abbr, b, cite, del, em, font, i, ins, mark, s, small, span, strike, strong, sub, sup, u';
const linesInCells = ['td', 'th']
  .flatMap((cell) => ['br', 'li', 'p', 'div'].map((line) => `${cell} ${line}`))
  .join(', ');
const wrapper = /^(?:DIV|MAIN|ARTICLE|SECTION)$/;
const block = /^(?:P|H[1-6]|UL|OL|DL|TABLE|PRE|BLOCKQUOTE|DIV|MAIN|ARTICLE|SECTION)$/;
/** The translator's time grows with the square of what it gets at once. */
const blocksPerTranslation = 100;

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
  const { body } = new DOMParser().parseFromString(page, 'text/html');
  for (const caption of body.querySelectorAll('table > caption')) {
    caption.parentElement?.before(caption.textContent ?? '');
    caption.remove();
  }
  // A cell is one line of Markdown: what stood on lines of its own must not grow together.
  for (const line of body.querySelectorAll(linesInCells)) line.after(' ');
  for (const image of body.querySelectorAll('img')) image.replaceWith(image.getAttribute('alt') ?? '');
  for (const code of body.querySelectorAll('code')) {
    if (code.parentElement?.tagName !== 'PRE') code.replaceWith(code.textContent ?? '');
  }
  for (const element of body.querySelectorAll(inlineElements)) element.replaceWith(...element.childNodes);
  const parts = splitBetweenBlocks(body).map((part) => translator.translate(part));
  return parts.join('\n\n').replace(/^\|.*\|$/gm, withoutPadding);
}

/** The content of the innermost element that holds everything, in pieces that begin with a block. */
function splitBetweenBlocks(body: HTMLElement): string[] {
  let root = body;
  for (let only = onlyChild(root); only && wrapper.test(only.tagName); only = onlyChild(root)) root = only;
  const parts: string[] = [];
  let part = '';
  let blocks = 0;
  for (const node of root.childNodes) {
    const isBlock = block.test(node.nodeName);
    if (isBlock && blocks >= blocksPerTranslation) {
      parts.push(part);
      part = '';
      blocks = 0;
    }
    part += String(node);
    blocks += isBlock ? 1 : 0;
  }
  return [...parts, part];
}

function onlyChild(element: HTMLElement): HTMLElement | null {
  const filled = [...element.childNodes].filter((node) => node.textContent?.trim());
  const [first] = filled;
  return filled.length === 1 && first instanceof HTMLElement ? first : null;
}

/** Columns are padded to their widest cell: many blanks and dashes that say nothing. */
function withoutPadding(row: string): string {
  return row.replace(/ {2,}/g, ' ').replace(/(?<=\| )-+(?= \|)/g, '---');
}
