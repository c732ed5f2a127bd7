import { Readability } from '@mozilla/readability';
import { looksLikeFeed, xmlDocumentRoot } from '#src/domain/documents/formats.ts';
import { decodeText, findDeclaredEncoding } from '../decode-text.ts';
import { checkHtmlNestingDepth, htmlToMarkdown, parseHtmlPage } from '../html-to-markdown.ts';
import { childXmlElements, parseXml, textContentOfXml, type XmlElement } from '../office/xml-parts.ts';
import { removeNavigationAndBanners } from '../page-navigation.ts';
import type { DocumentParser, ParsedDocument } from '../parsed-document.ts';
import { fencedCodeBlock } from './plain-text.ts';
import { parseFictionBook, parseJats } from './xml-document.ts';

/** Readability's result is used only if it holds at least this share of the page's text. */
const minMainShare = 0.3;

export const parseHtml: DocumentParser = ({ bytes, encoding }) => {
  const html = decodeText(bytes, encoding ?? findDeclaredEncoding(bytes));
  if (looksLikeFeed(html)) return parseXmlOrText(parseFeed, bytes, html);
  const root = xmlDocumentRoot(html);
  if (root === 'FictionBook') return parseXmlOrText(parseFictionBook, bytes, html);
  if (root === 'article') return parseXmlOrText(parseJats, bytes, html);
  const document = parseHtmlPage(html);
  const title = document.querySelector('title')?.textContent?.trim() || null;
  for (const element of document.querySelectorAll('script, style, noscript, template, svg, iframe')) element.remove();
  removeNavigationAndBanners(document.body);
  const wholeText = textLength(document.body?.textContent);
  const whole = document.body?.innerHTML ?? '';

  // Readability modifies the document, so everything else is read from it before. `keepClasses` keeps the language of
  // code blocks.
  const main = new Readability(document, { keepClasses: true }).parse();
  const isMain = main?.content && textLength(main.textContent) >= wholeText * minMainShare;
  const body = htmlToMarkdown(isMain ? main.content : whole);
  // The title is not added to an empty body, so that a page whose content scripts fill in counts as empty.
  const isUntitled = body.trim() !== '' && !/^# /m.test(body);
  return { body: title && isUntitled ? `# ${title}\n\n${body}` : body, title };
};

/** Malformed XML is kept as a code block, so that its words can be found. */
function parseXmlOrText(read: (bytes: Buffer) => ParsedDocument, bytes: Buffer, text: string): ParsedDocument {
  try {
    return read(bytes);
  } catch {
    return { body: fencedCodeBlock(text, 'xml'), title: null };
  }
}

function textLength(text: string | null | undefined): number {
  return text?.replace(/\s+/g, '').length ?? 0;
}

function parseFeed(bytes: Buffer): ParsedDocument {
  const root = parseXml(bytes);
  const channel = childOf(root, 'channel') ?? root;
  const title = textIn(channel, 'title');
  // RSS 1.0 has its `item` elements beside the `channel` element instead of inside it.
  const entries = [channel, root === channel ? undefined : root]
    .flatMap(childXmlElements)
    .filter(({ name }) => /^(?:.*:)?(?:item|entry)$/.test(name));
  const parts = [title && `# ${title}`, htmlIn(channel, 'description', 'subtitle'), ...entries.map(renderEntry)];
  return { body: parts.filter(Boolean).join('\n\n'), title: title || null };
}

function renderEntry(entry: XmlElement): string {
  const title = textIn(entry, 'title');
  const author = childOf(entry, 'author');
  const by = [
    dateText(textIn(entry, 'pubDate', 'published', 'date', 'updated')),
    textIn(entry, 'creator') || (author && (textIn(author, 'name') || textContentOfXml(author).trim())),
  ];
  const content = htmlIn(entry, 'encoded', 'content', 'description', 'summary');
  return [title && `## ${title}`, by.filter(Boolean).join(', '), content].filter(Boolean).join('\n\n');
}

function dateText(text: string): string {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? text : date.toISOString().slice(0, 10);
}

function htmlIn(element: XmlElement, ...names: string[]): string {
  const html = textIn(element, ...names);
  checkHtmlNestingDepth(html);
  return htmlToMarkdown(html).trim();
}

function textIn(element: XmlElement, ...names: string[]): string {
  const found = names.map((name) => textContentOfXml(childOf(element, name)).trim());
  return found.find((text) => text !== '') ?? '';
}

function childOf(element: XmlElement, name: string): XmlElement | undefined {
  const children = childXmlElements(element);
  return children.find((child) => child.name === name) ?? children.find((child) => child.name.endsWith(`:${name}`));
}
