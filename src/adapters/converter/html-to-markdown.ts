import { DOMParser, HTMLElement } from 'linkedom';
import { NodeHtmlMarkdown } from 'node-html-markdown';
import { parse, serialize } from 'parse5';
import { appError } from '#src/errors.ts';

/** Maximum depth of HTML elements. The HTML parsers would need hours for deeper nesting. */
const maxNesting = 2_000;
/** Elements without an end tag, or whose end tag is optional in HTML. The nesting check does not count them. */
const selfClosing =
  /^(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr|p|li|d[td]|t[dhr]|tbody|thead|tfoot|option|optgroup)$/;

/** Must run before untrusted HTML is parsed. Throws `corrupt_document` when elements nest too deeply. */
export function checkHtmlNestingDepth(html: string): void {
  let depth = 0;
  for (const [, slash, name = ''] of html.matchAll(/<(\/?)([a-z][a-z0-9]*)/gi)) {
    if (!selfClosing.test(name.toLowerCase())) depth = slash ? Math.max(0, depth - 1) : depth + 1;
    if (depth > maxNesting) {
      throw appError('corrupt_document', { detail: `The HTML nests elements more than ${maxNesting} levels deep.` });
    }
  }
}

/** Parses an untrusted page. parse5 adds missing `html`, `head` and `body` elements, which linkedom needs. */
export function parseHtmlPage(html: string) {
  checkHtmlNestingDepth(html);
  return new DOMParser().parseFromString(serialize(parse(html)), 'text/html');
}

/** Inline elements reduced to their text: markup would break phrases, and link addresses would dominate embeddings. */
const inlineElements = 'a, abbr, b, cite, del, em, font, i, ins, mark, s, small, span, strike, strong, sub, sup, u';
const linesInCells = ['td', 'th']
  .flatMap((cell) => ['br', 'li', 'p', 'div'].map((line) => `${cell} ${line}`))
  .join(', ');
const wrapper = /^(?:DIV|MAIN|ARTICLE|SECTION)$/;
const block = /^(?:P|H[1-6]|UL|OL|DL|TABLE|PRE|BLOCKQUOTE|DIV|MAIN|ARTICLE|SECTION)$/;
/** Blocks per call of NodeHtmlMarkdown, whose running time is quadratic in the length of its input. */
const blocksPerTranslation = 100;

const translator = new NodeHtmlMarkdown({
  bulletMarker: '-',
  maxConsecutiveNewlines: 2,
  // Markdown characters are not escaped, because backslashes inside words break phrases; an accidental heading or list
  // does less harm.
  globalEscape: [/(?!)/g, ''],
  lineStartEscape: [/(?!)/g, ''],
});

/** Converts an HTML fragment to GitHub-flavored Markdown. Pictures are replaced by their alternative texts. */
export function htmlToMarkdown(html: string): string {
  const page = `<!doctype html><html><body>${html}</body></html>`;
  const { body } = new DOMParser().parseFromString(page, 'text/html');
  for (const caption of body.querySelectorAll('table > caption')) {
    caption.parentElement?.before(caption.textContent ?? '');
    caption.remove();
  }
  // A table cell must be a single line of Markdown: a space separates the words of its former lines.
  for (const line of body.querySelectorAll(linesInCells)) line.after(' ');
  for (const image of body.querySelectorAll('img')) image.replaceWith(image.getAttribute('alt') ?? '');
  for (const code of body.querySelectorAll('code')) {
    if (code.parentElement?.tagName !== 'PRE') code.replaceWith(code.textContent ?? '');
  }
  for (const element of body.querySelectorAll(inlineElements)) element.replaceWith(...element.childNodes);
  const parts = splitBetweenBlocks(body).map((part) => translator.translate(part));
  return parts.join('\n\n').replace(/^\|.*\|$/gm, withoutPadding);
}

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

/** Removes the padding of table cells that NodeHtmlMarkdown adds, because it wastes tokens. */
function withoutPadding(row: string): string {
  return row.replace(/ {2,}/g, ' ').replace(/(?<=\| )-+(?= \|)/g, '---');
}
