import { distinct, renderBlocks } from '../office/blocks.ts';
import { readOdfPackage } from '../office/odf-package.ts';
import { readOdfStyles } from '../office/odf-styles.ts';
import { readOdfBlocks } from '../office/odf-text.ts';
import { childAt, descendants, elementsOf, type XmlElement } from '../office/xml.ts';
import type { DocumentParser } from '../parsed-document.ts';

/** OpenDocument text: headers, the text with its notes and comments, footers; of pictures their alternative texts. */
export const parseOdt: DocumentParser = async ({ bytes }) => {
  const document = await readOdfPackage(bytes);
  let marks = 0;
  const references = {
    styles: readOdfStyles(document),
    objects: document.objects,
    nextMark: () => String(++marks),
  };
  const pages = descendants(childAt(document.styles, 'office:master-styles'), 'style:master-page').flatMap(elementsOf);
  const running = (kind: RegExp) => {
    const lines = pages.filter(({ name }) => kind.test(name)).flatMap(linesWithoutPageNumber);
    return distinct(readOdfBlocks({ name: '', attributes: {}, children: lines }, references));
  };
  const headers = running(/^style:header(?:-left|-first)?$/);
  const body = readOdfBlocks(childAt(document.content, 'office:body', 'office:text'), references);
  const footers = running(/^style:footer(?:-left|-first)?$/);
  return { body: renderBlocks([...headers, ...body, ...footers]), title: document.title };
};

/** The number of a page is another one on each: its line says nothing about the document. */
function linesWithoutPageNumber(part: XmlElement): XmlElement[] {
  return elementsOf(part).filter((line) => descendants(line, 'text:page-number').length === 0);
}
