import { posix } from 'node:path';
import { DOMParser } from 'linkedom';
import { appError } from '#src/errors.ts';
import { decodeText, htmlEncoding } from '../decode-text.ts';
import { checkNesting, htmlToMarkdown } from '../html-to-markdown.ts';
import {
  childAt,
  childrenNamed,
  descendants,
  elementsOf,
  openZipParts,
  readXmlPart,
  textOf,
  type XmlElement,
  type ZipParts,
} from '../office/xml-parts.ts';
import { type DocumentParser, statedTitle } from '../parsed-document.ts';

/** Books may scramble their fonts, which protects no text. */
const fontAlgorithms = new Set(['http://www.idpf.org/2008/embedding', 'http://ns.adobe.com/pdf/enc#RC']);

/** E-books: the chapters in the order of reading, under the names that the table of contents gives them. */
export const parseEpub: DocumentParser = async ({ bytes }) => {
  const parts = await openZipParts(bytes);
  await checkProtection(parts);
  const container = await readXmlPart(parts, 'META-INF/container.xml');
  const path = descendants(container, 'rootfile')[0]?.attributes['full-path'] ?? '';
  const book = await readXmlPart(parts, path);
  if (!book) throw appError('corrupt_document', { detail: 'The file lacks the part that lists its chapters.' });
  const inBook = (address: string) => addressed(posix.dirname(path), address);

  const items = new Map(
    childrenNamed(childAt(book, 'opf:manifest'), 'opf:item').map((item) => [item.attributes.id, item]),
  );
  const spine = childrenNamed(childAt(book, 'opf:spine'), 'opf:itemref').map(({ attributes }) =>
    items.get(attributes.idref),
  );
  const chapters = spine.filter((item) => item !== undefined).filter((item) => !isNavigation(item));
  const names = await readNames(parts, [...items.values()], inBook);
  const texts: string[] = [];
  // No chapter is in a book twice: a file that says so would keep its reader busy for hours.
  for (const { attributes } of new Set(chapters)) {
    const part = inBook(attributes.href ?? '');
    const chapter = await parts.read(part);
    if (chapter) texts.push(withName(chapterText(chapter), names.get(part)));
  }
  const title = textOf(childAt(book, 'opf:metadata', 'dc:title'));
  return { body: texts.filter(Boolean).join('\n\n'), title: statedTitle(title) };
};

/** @throws AppError encrypted_document */
async function checkProtection(parts: ZipParts): Promise<void> {
  const methods = descendants(await readXmlPart(parts, 'META-INF/encryption.xml'), 'enc:EncryptionMethod');
  if (methods.some(({ attributes }) => !fontAlgorithms.has(attributes.Algorithm ?? ''))) {
    throw appError('encrypted_document', {
      detail: 'The book is protected against copying; upload one without the protection.',
    });
  }
}

function isNavigation({ attributes }: XmlElement): boolean {
  return attributes.properties?.split(/\s+/).includes('nav') ?? false;
}

/** What the table of contents, newer or older, calls the parts; the first name of a part counts. */
async function readNames(
  parts: ZipParts,
  items: XmlElement[],
  inBook: (address: string) => string,
): Promise<Map<string, string>> {
  const names = new Map<string, string>();
  const add = (address: string, name: string) => {
    if (name && !names.has(address)) names.set(address, name);
  };
  for (const item of items) {
    const part = inBook(item.attributes.href ?? '');
    if (isNavigation(item)) {
      for (const link of parsePage(await parts.read(part)).querySelectorAll('nav a[href]')) {
        add(addressed(posix.dirname(part), link.getAttribute('href') ?? ''), oneLine(link.textContent));
      }
    }
    if (item.attributes['media-type'] === 'application/x-dtbncx+xml') {
      for (const point of pointsOf(childAt(await readXmlPart(parts, part), 'ncx:navMap'))) {
        const address = childAt(point, 'ncx:content')?.attributes.src ?? '';
        add(addressed(posix.dirname(part), address), oneLine(textOf(childAt(point, 'ncx:navLabel'))));
      }
    }
  }
  return names;
}

function pointsOf(element: XmlElement | undefined): XmlElement[] {
  return elementsOf(element).flatMap((child) => (child.name === 'ncx:navPoint' ? [child, ...pointsOf(child)] : []));
}

/** The part that a link means, without the place in it. */
function addressed(folder: string, address: string): string {
  const path = address.replace(/#.*$/, '');
  try {
    return posix.join(folder, decodeURIComponent(path));
  } catch {
    return posix.join(folder, path);
  }
}

function chapterText(bytes: Buffer): string {
  const { body } = parsePage(bytes);
  for (const element of body.querySelectorAll('script, style, template, svg, nav')) element.remove();
  return htmlToMarkdown(body.innerHTML).trim();
}

/** Chapters are XML, where any element may close itself; HTML would read on to the end of the page. */
function parsePage(bytes: Buffer | null) {
  const page = bytes === null ? '' : decodeText(bytes, htmlEncoding(bytes));
  checkNesting(page);
  const html = page.replace(
    /<(?!(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr)\b)([a-z][\w:-]*)([^<>]*)\/>/gi,
    '<$1$2></$1>',
  );
  return new DOMParser().parseFromString(html || '<html><body></body></html>', 'text/html');
}

function withName(text: string, name: string | undefined): string {
  if (name === undefined || text === '' || /^#+ /.test(text)) return text;
  const [first = ''] = text.split('\n', 1);
  return oneLine(first) === name ? `# ${text}` : `# ${name}\n\n${text}`;
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}
