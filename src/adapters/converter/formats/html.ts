import { Readability } from '@mozilla/readability';
import { DOMParser } from 'linkedom';
import { parse, serialize } from 'parse5';
import { looksLikeFeed } from '#src/domain/documents/formats.ts';
import { decodeText, htmlEncoding } from '../decode-text.ts';
import { checkNesting, htmlToMarkdown } from '../html-to-markdown.ts';
import { elementsOf, parseXml, textOf, type XmlElement } from '../office/xml-parts.ts';
import type { DocumentParser, ParsedDocument } from '../parsed-document.ts';
import { fenced } from './plain-text.ts';

/** Below this share of the page's text, what was taken for its main part is only one part of several. */
const leastMainShare = 0.3;
/** The main part of a page without its menus and banners, or the whole page when there is no clear main part. */
export const parseHtml: DocumentParser = ({ bytes, encoding }) => {
  const html = decodeText(bytes, encoding ?? htmlEncoding(bytes));
  if (looksLikeFeed(html)) return parseFeedOrText(bytes, html);
  checkNesting(html);
  // As browsers complete it: `html`, `head` and `body` may be left out of a page, and the DOM here wants them.
  const document = new DOMParser().parseFromString(serialize(parse(html)), 'text/html');
  const title = document.querySelector('title')?.textContent?.trim() || null;
  for (const element of document.querySelectorAll('script, style, noscript, template, svg, iframe')) element.remove();
  const wholeText = textLength(document.body?.textContent);
  const whole = document.body?.innerHTML ?? '';

  // The reader takes the document apart, so everything that is needed of it is read before.
  // The language of a code block stands in its class.
  const main = new Readability(document, { keepClasses: true }).parse();
  const isMain = main?.content && textLength(main.textContent) >= wholeText * leastMainShare;
  const body = htmlToMarkdown(isMain ? main.content : whole);
  // A title alone is no document: what stands below it is made by scripts.
  const isUntitled = body.trim() !== '' && !/^# /m.test(body);
  return { body: title && isUntitled ? `# ${title}\n\n${body}` : body, title };
};

/** A feed that no parser reads still has words to find. */
function parseFeedOrText(bytes: Buffer, text: string): ParsedDocument {
  try {
    return parseFeed(bytes);
  } catch {
    return { body: fenced(text, 'xml'), title: null };
  }
}

function textLength(text: string | null | undefined): number {
  return text?.replace(/\s+/g, '').length ?? 0;
}

/**
 * RSS and Atom: the entries with their dates, authors and texts, in the order of the feed.
 * @throws Error for what is not well-formed
 */
function parseFeed(bytes: Buffer): ParsedDocument {
  const root = parseXml(bytes);
  const channel = childOf(root, 'channel') ?? root;
  const title = textIn(channel, 'title');
  // RSS 1.0 has its entries beside the channel.
  const entries = [channel, root === channel ? undefined : root]
    .flatMap(elementsOf)
    .filter(({ name }) => /^(?:.*:)?(?:item|entry)$/.test(name));
  const parts = [title && `# ${title}`, htmlIn(channel, 'description', 'subtitle'), ...entries.map(renderEntry)];
  return { body: parts.filter(Boolean).join('\n\n'), title: title || null };
}

function renderEntry(entry: XmlElement): string {
  const title = textIn(entry, 'title');
  const author = childOf(entry, 'author');
  const by = [
    dateText(textIn(entry, 'pubDate', 'published', 'date', 'updated')),
    textIn(entry, 'creator') || (author && (textIn(author, 'name') || textOf(author).trim())),
  ];
  const content = htmlIn(entry, 'encoded', 'content', 'description', 'summary');
  return [title && `## ${title}`, by.filter(Boolean).join(', '), content].filter(Boolean).join('\n\n');
}

/** Feeds write dates in two ways; a day is what a reader asks for. */
function dateText(text: string): string {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? text : date.toISOString().slice(0, 10);
}

/** The content of the first of these elements that is there, as Markdown. */
function htmlIn(element: XmlElement, ...names: string[]): string {
  const html = textIn(element, ...names);
  checkNesting(html);
  return htmlToMarkdown(html).trim();
}

function textIn(element: XmlElement, ...names: string[]): string {
  const found = names.map((name) => textOf(childOf(element, name)).trim());
  return found.find((text) => text !== '') ?? '';
}

/** The name as it is, or else with any prefix. */
function childOf(element: XmlElement, name: string): XmlElement | undefined {
  const children = elementsOf(element);
  return children.find((child) => child.name === name) ?? children.find((child) => child.name.endsWith(`:${name}`));
}
