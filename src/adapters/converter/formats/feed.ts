import { checkNesting, htmlToMarkdown } from '../html-to-markdown.ts';
import { elementsOf, parseXml, textOf, type XmlElement } from '../office/xml.ts';
import type { ParsedDocument } from '../parsed-document.ts';

/**
 * RSS and Atom: the entries with their dates, authors and texts, in the order of the feed.
 * @throws Error for what is not well-formed
 */
export function parseFeed(bytes: Buffer): ParsedDocument {
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
