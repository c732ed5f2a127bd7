import { checkHtmlNestingDepth, htmlToMarkdown } from '../html-to-markdown.ts';
import {
  childXmlElementAtPath,
  childXmlElements,
  childXmlElementsNamed,
  descendantXmlElementsNamed,
  parseXml,
  textContentOfXml,
  type XmlElement,
  type XmlNode,
} from '../office/xml-parts.ts';
import type { ParsedDocument } from '../parsed-document.ts';

/** HTML elements for those of FictionBook and JATS (the XML of journals) whose meaning is the same. */
const htmlNames: Record<string, string> = {
  p: 'p',
  v: 'p',
  cite: 'blockquote',
  epigraph: 'blockquote',
  'disp-quote': 'blockquote',
  'text-author': 'p',
  caption: 'div',
  label: 'div',
  stanza: 'div',
  list: 'ul',
  'list-item': 'li',
  'def-list': 'ul',
  'def-item': 'li',
  'ref-list': 'ul',
  ref: 'li',
  preformat: 'pre',
  code: 'pre',
  table: 'table',
  thead: 'thead',
  tbody: 'tbody',
  tr: 'tr',
  td: 'td',
  th: 'th',
};
/** Pictures, and what a reader of the text does not see. */
const skipped = new Set(['binary', 'image', 'graphic', 'inline-graphic', 'media']);
const deepestHeading = 6;

/** Reads a FictionBook (.fb2): the title and authors, then the text with its sections as headings. */
export function parseFictionBook(bytes: Buffer): ParsedDocument {
  const book = parseXml(bytes);
  const about = childXmlElementAtPath(book, 'description', 'title-info');
  const title = textOf(childXmlElementAtPath(about, 'book-title'));
  const authors = childXmlElementsNamed(about, 'author').map((author) =>
    childXmlElements(author).map(textOf).join(' '),
  );
  const bodies = childXmlElementsNamed(book, 'body').map((body) => htmlOf(body, 2));
  return document(title, authors, bodies);
}

/** Reads an article in JATS: the title and authors, the abstract, the text and the references. */
export function parseJats(bytes: Buffer): ParsedDocument {
  const article = parseXml(bytes);
  const about = childXmlElementAtPath(article, 'front', 'article-meta');
  const title = textOf(childXmlElementAtPath(about, 'title-group', 'article-title'));
  const authors = descendantXmlElementsNamed(about, 'name').map((name) =>
    ['given-names', 'surname'].map((part) => textOf(childXmlElementAtPath(name, part))).join(' '),
  );
  const abstracts = childXmlElementsNamed(about, 'abstract').map((abstract) => {
    const heading = childXmlElementAtPath(abstract, 'title') ? '' : '<h2>Abstract</h2>';
    return heading + htmlOf(abstract, 2);
  });
  const rest = ['body', 'back'].map((name) => htmlOf(childXmlElementAtPath(article, name), 2));
  return document(title, authors, [...abstracts, ...rest]);
}

function document(title: string, authors: string[], parts: string[]): ParsedDocument {
  const html = parts.join('');
  checkHtmlNestingDepth(html);
  const head = [
    title && `# ${title}`,
    authors
      .map((author) => author.trim())
      .filter(Boolean)
      .join(', '),
  ];
  return { body: [...head, htmlToMarkdown(html).trim()].filter(Boolean).join('\n\n'), title: title || null };
}

/** @param level of the headings of this element's sections */
function htmlOf(node: XmlNode | undefined, level: number): string {
  if (node === undefined) return '';
  if (typeof node === 'string') return escaped(node);
  if (skipped.has(node.name)) return '';
  if (node.name === 'title') return heading(node, level);
  if (node.name === 'subtitle') return heading(node, level + 1);
  const isSection = node.name === 'section' || node.name === 'sec';
  const inner = node.children.map((child) => htmlOf(child, isSection && !isTitle(child) ? level + 1 : level)).join('');
  if (isSection) return `<div>${inner}</div>`;
  const name = Object.hasOwn(htmlNames, node.name) ? htmlNames[node.name] : undefined;
  return name ? `<${name}>${inner}</${name}>` : inner;
}

function isTitle(node: XmlNode): boolean {
  return typeof node !== 'string' && (node.name === 'title' || node.name === 'subtitle');
}

function heading(element: XmlElement, level: number): string {
  const name = `h${Math.min(level, deepestHeading)}`;
  return `<${name}>${escaped(textOf(element))}</${name}>`;
}

function textOf(element: XmlElement | undefined): string {
  return childXmlElements(element).length > 0
    ? (element?.children ?? [])
        .map((child) => textContentOfXml(child).trim())
        .filter(Boolean)
        .join(' ')
    : textContentOfXml(element).replace(/\s+/g, ' ').trim();
}

function escaped(text: string): string {
  return text.replace(/[<>&]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}
