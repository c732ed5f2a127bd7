import { Readability } from '@mozilla/readability';
import { DOMParser } from 'linkedom';
import { parse, serialize } from 'parse5';
import { looksLikeFeed } from '#src/domain/documents/formats.ts';
import { decodeText, htmlEncoding } from '../decode-text.ts';
import { checkNesting, htmlToMarkdown } from '../html-to-markdown.ts';
import type { DocumentParser, ParsedDocument } from '../parsed-document.ts';
import { parseFeed } from './feed.ts';
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
