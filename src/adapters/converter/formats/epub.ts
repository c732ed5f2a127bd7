import { posix } from 'node:path';
import { DOMParser } from 'linkedom';
import { appError } from '#src/errors.ts';
import { decodeText, findDeclaredEncoding } from '../decode-text.ts';
import { checkHtmlNestingDepth, htmlToMarkdown } from '../html-to-markdown.ts';
import {
  childXmlElementAtPath,
  childXmlElements,
  childXmlElementsNamed,
  descendantXmlElementsNamed,
  openZipParts,
  readXmlPart,
  textContentOfXml,
  type XmlElement,
  type ZipParts,
} from '../office/xml-parts.ts';
import { type DocumentParser, discardDefaultTitle } from '../parsed-document.ts';

/** Font obfuscation (IDPF and Adobe algorithms) does not encrypt the text of an EPUB, so such books are readable. */
const fontAlgorithms = new Set(['http://www.idpf.org/2008/embedding', 'http://ns.adobe.com/pdf/enc#RC']);

/** Reads e-books: chapters in reading order, headed by their names in the table of contents. */
export const parseEpub: DocumentParser = async ({ bytes }) => {
  const parts = await openZipParts(bytes);
  await checkProtection(parts);
  const container = await readXmlPart(parts, 'META-INF/container.xml');
  const path = descendantXmlElementsNamed(container, 'rootfile')[0]?.attributes['full-path'] ?? '';
  const book = await readXmlPart(parts, path);
  if (!book) throw appError('corrupt_document', { detail: 'The file lacks the part that lists its chapters.' });
  const inBook = (address: string) => resolveHref(posix.dirname(path), address);

  const items = new Map(
    childXmlElementsNamed(childXmlElementAtPath(book, 'opf:manifest'), 'opf:item').map((item) => [
      item.attributes.id,
      item,
    ]),
  );
  const spine = childXmlElementsNamed(childXmlElementAtPath(book, 'opf:spine'), 'opf:itemref').map(({ attributes }) =>
    items.get(attributes.idref),
  );
  const chapters = spine.filter((item) => item !== undefined).filter((item) => !isNavigation(item));
  const names = await readNames(parts, [...items.values()], inBook);
  const texts: string[] = [];
  // Each chapter is read only once, because a hostile book can list one chapter so often that reading it each time
  // takes hours.
  for (const { attributes } of new Set(chapters)) {
    const part = inBook(attributes.href ?? '');
    const chapter = await parts.read(part);
    if (chapter) texts.push(withHeading(chapterToMarkdown(chapter), names.get(part)));
  }
  const title = textContentOfXml(childXmlElementAtPath(book, 'opf:metadata', 'dc:title'));
  return { body: texts.filter(Boolean).join('\n\n'), title: discardDefaultTitle(title) };
};

async function checkProtection(parts: ZipParts): Promise<void> {
  const methods = descendantXmlElementsNamed(
    await readXmlPart(parts, 'META-INF/encryption.xml'),
    'enc:EncryptionMethod',
  );
  if (methods.some(({ attributes }) => !fontAlgorithms.has(attributes.Algorithm ?? ''))) {
    throw appError('encrypted_document', {
      detail: 'The book is protected against copying; upload one without the protection.',
    });
  }
}

function isNavigation({ attributes }: XmlElement): boolean {
  return attributes.properties?.split(/\s+/).includes('nav') ?? false;
}

/** Chapter names from the EPUB 3 navigation or the EPUB 2 NCX. If a chapter has several names, the first is used. */
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
        add(resolveHref(posix.dirname(part), link.getAttribute('href') ?? ''), oneLine(link.textContent));
      }
    }
    if (item.attributes['media-type'] === 'application/x-dtbncx+xml') {
      for (const point of navPointsOf(childXmlElementAtPath(await readXmlPart(parts, part), 'ncx:navMap'))) {
        const address = childXmlElementAtPath(point, 'ncx:content')?.attributes.src ?? '';
        add(
          resolveHref(posix.dirname(part), address),
          oneLine(textContentOfXml(childXmlElementAtPath(point, 'ncx:navLabel'))),
        );
      }
    }
  }
  return names;
}

function navPointsOf(element: XmlElement | undefined): XmlElement[] {
  return childXmlElements(element).flatMap((child) =>
    child.name === 'ncx:navPoint' ? [child, ...navPointsOf(child)] : [],
  );
}

function resolveHref(folder: string, address: string): string {
  const path = address.replace(/#.*$/, '');
  try {
    return posix.join(folder, decodeURIComponent(path));
  } catch {
    return posix.join(folder, path);
  }
}

function chapterToMarkdown(bytes: Buffer): string {
  const { body } = parsePage(bytes);
  for (const element of body.querySelectorAll('script, style, template, svg, nav')) element.remove();
  return htmlToMarkdown(body.innerHTML).trim();
}

/** Expands self-closing XHTML elements before parsing, because an HTML parser would leave them open. */
function parsePage(bytes: Buffer | null) {
  const page = bytes === null ? '' : decodeText(bytes, findDeclaredEncoding(bytes));
  checkHtmlNestingDepth(page);
  const html = page.replace(
    /<(?!(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr)\b)([a-z][\w:-]*)([^<>]*)\/>/gi,
    '<$1$2></$1>',
  );
  return new DOMParser().parseFromString(html || '<html><body></body></html>', 'text/html');
}

function withHeading(text: string, name: string | undefined): string {
  if (name === undefined || text === '' || /^#+ /.test(text)) return text;
  const [first = ''] = text.split('\n', 1);
  return oneLine(first) === name ? `# ${text}` : `# ${name}\n\n${text}`;
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}
