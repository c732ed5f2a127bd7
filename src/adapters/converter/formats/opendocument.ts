import { posix } from 'node:path';
import { appError } from '#src/errors.ts';
import {
  appendTextBlocks,
  flattenTableCell,
  footnoteBlock,
  markdownLink,
  paragraphBlocks,
  quotedCommentBlock,
  removeRepeatedTextBlocks,
  renderTextBlocksAsMarkdown,
  type TextBlock,
} from '../office/blocks.ts';
import {
  childXmlElementAtPath,
  childXmlElements,
  childXmlElementsNamed,
  descendantXmlElementsNamed,
  openOfficeParts,
  readXmlPart,
  textContentOfXml,
  type XmlElement,
  type XmlNode,
  type ZipParts,
} from '../office/xml-parts.ts';
import { type DocumentParser, discardDefaultTitle } from '../parsed-document.ts';
import { type OdfListState, type OdfStyles, readOdfStyles } from './opendocument-styles.ts';

/** Reads OpenDocument texts: headers, body with notes and comments, footers. Pictures become alternative texts. */
export const parseOdt: DocumentParser = async ({ bytes }) => {
  const document = await readOdfPackage(bytes);
  const references = createReferences(document);
  const pages = descendantXmlElementsNamed(
    childXmlElementAtPath(document.styles, 'office:master-styles'),
    'style:master-page',
  ).flatMap(childXmlElements);
  const running = (kind: RegExp) => {
    const lines = pages.filter(({ name }) => kind.test(name)).flatMap(linesWithoutPageNumber);
    return removeRepeatedTextBlocks(readOdfBlocks({ name: '', attributes: {}, children: lines }, references));
  };
  const headers = running(/^style:header(?:-left|-first)?$/);
  const body = readOdfBlocks(childXmlElementAtPath(document.content, 'office:body', 'office:text'), references);
  const footers = running(/^style:footer(?:-left|-first)?$/);
  return { body: renderTextBlocksAsMarkdown([...headers, ...body, ...footers]), title: document.title };
};

function linesWithoutPageNumber(part: XmlElement): XmlElement[] {
  return childXmlElements(part).filter((line) => descendantXmlElementsNamed(line, 'text:page-number').length === 0);
}

/** Placeholders that repeat on every slide and are left out: number, date, header and footer. */
const runningClasses = /^(?:page-number|date-time|footer|header)$/;

/** Reads OpenDocument presentations: one page for each slide, with notes and comments; hidden slides are marked. */
export const parseOdp: DocumentParser = async ({ bytes }) => {
  const document = await readOdfPackage(bytes);
  const references = createReferences(document);
  const slides = childXmlElementsNamed(
    childXmlElementAtPath(document.content, 'office:body', 'office:presentation'),
    'draw:page',
  );
  const read = slides.map((slide) => readSlide(slide, references));
  const body = read.map(({ title, isHidden, blocks }, index) => {
    const text = `${title || `Slide ${index + 1}`}${isHidden ? ' (hidden slide)' : ''}`;
    return title || blocks.length > 0
      ? renderTextBlocksAsMarkdown([{ kind: 'heading', level: 2, text }, ...blocks])
      : '';
  });
  return { body, title: document.title ?? (read[0]?.title || null) };
};

function readSlide(slide: XmlElement, references: OdfReferences) {
  let title = '';
  const blocks: TextBlock[] = [];
  for (const shape of childXmlElements(slide)) {
    const { 'presentation:class': kind = '', 'presentation:placeholder': isPlaceholder } = shape.attributes;
    if (isPlaceholder === 'true' || runningClasses.test(kind)) continue;
    const content = readOdfBlocks({ name: '', attributes: {}, children: [shape] }, references);
    if (kind === 'title' && !title) title = oneLine(content);
    else appendTextBlocks(blocks, content);
  }
  const isNotes = ({ attributes }: XmlElement) =>
    attributes['presentation:class'] === 'notes' && attributes['presentation:placeholder'] !== 'true';
  const frames = childXmlElements(childXmlElementAtPath(slide, 'presentation:notes')).filter(isNotes);
  const notes = frames.map((frame) => renderTextBlocksAsMarkdown(readOdfBlocks(frame, references))).join('\n');
  if (notes.trim()) blocks.push(quotedCommentBlock('Notes', notes.replace(/\n{2,}/g, '\n')));
  return { title, isHidden: references.styles.isHiddenPage(slide.attributes['draw:style-name']), blocks };
}

function oneLine(blocks: TextBlock[]): string {
  return renderTextBlocksAsMarkdown(blocks.filter((block) => block.kind === 'paragraph')).replace(/\s+/g, ' ');
}

type OdfPackage = {
  content: XmlElement;
  styles: XmlElement | undefined;
  /**
   * Root elements of the equations (`math:math`) and charts (`office:document-content`) that are embedded in the file,
   * by their path in the archive.
   */
  objects: ReadonlyMap<string, XmlElement>;
  title: string | null;
};

async function readOdfPackage(bytes: Buffer): Promise<OdfPackage> {
  const parts = await openOfficeParts(bytes);
  await checkEncryption(parts);
  const content = await readXmlPart(parts, 'content.xml');
  if (!content) throw appError('corrupt_document', { detail: 'The file lacks the part that holds its text.' });
  const objects = new Map<string, XmlElement>();
  for (const { attributes } of descendantXmlElementsNamed(content, 'draw:object')) {
    const address = attributes['xlink:href'] ?? '';
    const object = await readXmlPart(parts, posix.join(address, 'content.xml'));
    if (object) objects.set(address, object);
  }
  const meta = await readXmlPart(parts, 'meta.xml');
  const title = discardDefaultTitle(textContentOfXml(childXmlElementAtPath(meta, 'office:meta', 'dc:title')));
  return { content, styles: await readXmlPart(parts, 'styles.xml'), objects, title };
}

/** Encrypted OpenDocument files list encrypted parts in the manifest or wrap everything in one encrypted part. */
async function checkEncryption(parts: ZipParts): Promise<void> {
  const manifest = await readXmlPart(parts, 'META-INF/manifest.xml');
  if (
    parts.names.includes('encrypted-package') ||
    descendantXmlElementsNamed(manifest, 'manifest:encryption-data').length > 0
  ) {
    throw appError('encrypted_document', {
      detail: 'The file opens only with a password; upload it without the password.',
    });
  }
}

type OdfReferences = {
  styles: OdfStyles;
  objects: ReadonlyMap<string, XmlElement>;
  nextMark: () => string;
};

const skippedElements = new Set([
  'text:tracked-changes',
  'text:hidden-text',
  'text:hidden-paragraph',
  'text:ruby-text',
  'text:page-number',
  'text:page-count',
  'text:sequence-decls',
  'office:forms',
  'presentation:notes',
  'svg:title',
  'svg:desc',
]);

function createReferences(document: OdfPackage): OdfReferences {
  let noteCount = 0;
  return { styles: readOdfStyles(document), objects: document.objects, nextMark: () => String(++noteCount) };
}

function readOdfBlocks(container: XmlElement | undefined, references: OdfReferences): TextBlock[] {
  return childXmlElements(container).flatMap((element) => readBlock(element, references));
}

function readBlock(element: XmlElement, references: OdfReferences): TextBlock[] {
  switch (element.name) {
    case 'text:p':
    case 'text:h':
      return readParagraph(element, references);
    case 'text:list':
      return readList(element, references, null);
    case 'table:table':
      return readOdfTable(element, references);
    case 'draw:frame':
      return readFrame(element, references);
    case 'office:annotation':
      return [readComment(element, references)];
    default:
      return skippedElements.has(element.name) ? [] : readOdfBlocks(element, references);
  }
}

function readParagraph(element: XmlElement, references: OdfReferences): TextBlock[] {
  const { text, after } = readInline(element, references);
  if (text.trim() === '') return after;
  if (element.name === 'text:p') {
    const level = references.styles.headingLevel(element.attributes['text:style-name']);
    return [...(level === null ? paragraphBlocks(text) : [{ kind: 'heading', level, text } as const]), ...after];
  }
  const level = Math.max(1, Number(element.attributes['text:outline-level'] ?? 1));
  const label = references.styles.nextHeadingLabel(level);
  return [{ kind: 'heading', level, text: label ? `${label} ${text}` : text }, ...after];
}

function readList(element: XmlElement, references: OdfReferences, outer: OdfListState | null): TextBlock[] {
  const list = references.styles.openList(element, outer);
  return childXmlElements(element).flatMap((item): TextBlock[] => {
    const content = childXmlElements(item);
    const inner = content
      .filter(({ name }) => name === 'text:list')
      .flatMap((each) => readList(each, references, list));
    const own = content.filter(({ name }) => name !== 'text:list').flatMap((each) => readBlock(each, references));
    const lines = own.filter((block) => block.kind === 'paragraph');
    if (item.name !== 'text:list-item' || lines.length === 0) return [...own, ...inner];
    const text = lines.map((line) => line.text).join(' ');
    const label = references.styles.nextListLabel(list, item);
    const others = own.filter((block) => block.kind !== 'paragraph');
    return [{ kind: 'item', depth: list.depth, label, text }, ...others, ...inner];
  });
}

type Inline = { text: string; after: TextBlock[] };

function readInline(element: XmlElement, references: OdfReferences): Inline {
  const after: TextBlock[] = [];

  const readAll = (parent: XmlElement): string => parent.children.map(read).join('');
  function read(node: XmlNode): string {
    if (typeof node === 'string') return node.replace(/\s+/g, ' ');
    if (skippedElements.has(node.name) || references.styles.isHiddenText(node.attributes['text:style-name'])) return '';
    switch (node.name) {
      case 'text:s':
      case 'text:tab':
        return ' ';
      case 'text:line-break':
        return '\n';
      case 'text:a':
        return markdownLink(readAll(node), node.attributes['xlink:href']);
      case 'text:note':
        return readNote(node);
      case 'office:annotation':
        after.push(readComment(node, references));
        return '';
      case 'draw:frame':
        return readInlineFrame(node);
      default:
        if (!node.name.startsWith('draw:')) return readAll(node);
        appendTextBlocks(after, readOdfBlocks(node, references));
        return '';
    }
  }

  function readNote(note: XmlElement): string {
    const mark = references.nextMark();
    after.push(
      footnoteBlock(
        mark,
        renderTextBlocksAsMarkdown(readOdfBlocks(childXmlElementAtPath(note, 'text:note-body'), references)),
      ),
    );
    return `[^${mark}]`;
  }

  function readInlineFrame(frame: XmlElement): string {
    const blocks = readFrame(frame, references);
    const [only] = blocks;
    const isText = only?.kind === 'paragraph' && childXmlElementAtPath(frame, 'draw:text-box') === undefined;
    if (isText && blocks.length === 1) return ` ${only.text} `;
    appendTextBlocks(after, blocks);
    return '';
  }

  if (references.styles.isHiddenText(element.attributes['text:style-name'])) return { text: '', after };
  return { text: readAll(element).replace(/ {2,}/g, ' '), after };
}

function readComment(annotation: XmlElement, references: OdfReferences): TextBlock {
  const author = textContentOfXml(childXmlElementAtPath(annotation, 'dc:creator')).trim();
  const lines = childXmlElements(annotation).filter(({ name }) => name.startsWith('text:'));
  const text = lines.flatMap((each) => readBlock(each, references));
  return quotedCommentBlock(
    author ? `Comment by ${author}` : 'Comment',
    renderTextBlocksAsMarkdown(text).replace(/\n{2,}/g, '\n'),
  );
}

function readFrame(frame: XmlElement, references: OdfReferences): TextBlock[] {
  const object = references.objects.get(childXmlElementAtPath(frame, 'draw:object')?.attributes['xlink:href'] ?? '');
  const content = object ? readObject(object, references) : readOdfBlocks(frame, references);
  if (content.length > 0) return content;
  return paragraphBlocks(
    textContentOfXml(childXmlElementAtPath(frame, 'svg:desc')) ||
      textContentOfXml(childXmlElementAtPath(frame, 'svg:title')),
  );
}

function readObject(object: XmlElement, references: OdfReferences): TextBlock[] {
  const [equation] = descendantXmlElementsNamed(object, 'math:annotation').map((each) => textContentOfXml(each).trim());
  if (equation) return paragraphBlocks(`$${equation}$`);
  const titles = descendantXmlElementsNamed(object, 'chart:title').flatMap((title) => readOdfBlocks(title, references));
  return [
    ...titles,
    ...descendantXmlElementsNamed(object, 'table:table').flatMap((table) => readOdfTable(table, references)),
  ];
}

/** Maximum of a cell's repeat count: tables in texts have few columns, but a hostile file may claim millions. */
const maxRepeatedCells = 100;

/** Repeats the text of a vertically merged cell in each row, because a chunk may hold only one of the rows. */
function readOdfTable(table: XmlElement, references: OdfReferences): TextBlock[] {
  const rows: string[][] = [];
  const asides: TextBlock[] = [];
  const written = rowsOf(table);
  const [only, ...others] = written.flatMap((row) => childXmlElementsNamed(row, 'table:table-cell'));
  if (only && others.length === 0) return readOdfBlocks(only, references);
  const spans: { rows: number; text: string }[] = [];
  for (const row of written) {
    const cells: string[] = [];
    let covered = 0;
    for (const cell of childXmlElements(row)) {
      const repeated = count(cell, 'table:number-columns-repeated');
      const isCovered = cell.name === 'table:covered-table-cell';
      const content = isCovered ? null : flattenTableCell(readOdfBlocks(cell, references));
      appendTextBlocks(asides, content?.asides ?? []);
      if (content) covered = count(cell, 'table:number-columns-spanned') - 1;
      for (let time = 0; time < repeated; time += 1) {
        const above = spans[cells.length];
        const isBelow = content === null && covered <= 0 && above !== undefined && above.rows > 0;
        if (isBelow) above.rows -= 1;
        if (content) spans[cells.length] = { rows: count(cell, 'table:number-rows-spanned') - 1, text: content.text };
        else if (covered > 0) covered -= 1;
        cells.push(content?.text ?? (isBelow ? above.text : ''));
      }
    }
    rows.push(cells);
  }
  return rows.flat().every((cell) => cell === '') ? asides : [{ kind: 'table', rows }, ...asides];
}

function rowsOf(container: XmlElement): XmlElement[] {
  return childXmlElements(container).flatMap((element) => {
    if (element.name === 'table:table-row') return [element];
    return /^table:table-(?:header-rows|rows|row-group)$/.test(element.name) ? rowsOf(element) : [];
  });
}

function count(element: XmlElement, attribute: string): number {
  return Math.min(maxRepeatedCells, Math.max(1, Math.floor(Number(element.attributes[attribute] ?? 1)) || 1));
}
