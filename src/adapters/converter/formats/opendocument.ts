import { posix } from 'node:path';
import { appError } from '#src/errors.ts';
import {
  addBlocks,
  distinct,
  flattenCell,
  footnote,
  link,
  paragraph,
  remark,
  renderBlocks,
  type TextBlock,
} from '../office/blocks.ts';
import {
  childAt,
  childrenNamed,
  descendants,
  elementsOf,
  openZipParts,
  readXmlPart,
  textOf,
  type XmlElement,
  type XmlNode,
  type ZipParts,
} from '../office/xml-parts.ts';
import { type DocumentParser, statedTitle } from '../parsed-document.ts';
import { type OdfList, type OdfStyles, readOdfStyles } from './opendocument-styles.ts';

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

/** What every slide says: its number, the date, the footer. */
const runningClasses = /^(?:page-number|date-time|footer|header)$/;

/** OpenDocument presentation: a page for each slide, with its notes and comments; hidden slides say so. */
export const parseOdp: DocumentParser = async ({ bytes }) => {
  const document = await readOdfPackage(bytes);
  let marks = 0;
  const references = {
    styles: readOdfStyles(document),
    objects: document.objects,
    nextMark: () => String(++marks),
  };
  const slides = childrenNamed(childAt(document.content, 'office:body', 'office:presentation'), 'draw:page');
  const read = slides.map((slide) => readSlide(slide, references));
  const body = read.map(({ title, isHidden, blocks }, index) => {
    const text = `${title || `Slide ${index + 1}`}${isHidden ? ' (hidden slide)' : ''}`;
    return title || blocks.length > 0 ? renderBlocks([{ kind: 'heading', level: 2, text }, ...blocks]) : '';
  });
  return { body, title: document.title ?? (read[0]?.title || null) };
};

function readSlide(slide: XmlElement, references: OdfReferences) {
  let title = '';
  const blocks: TextBlock[] = [];
  for (const shape of elementsOf(slide)) {
    const { 'presentation:class': kind = '', 'presentation:placeholder': isPlaceholder } = shape.attributes;
    if (isPlaceholder === 'true' || runningClasses.test(kind)) continue;
    const content = readOdfBlocks({ name: '', attributes: {}, children: [shape] }, references);
    if (kind === 'title' && !title) title = oneLine(content);
    else addBlocks(blocks, content);
  }
  const isNotes = ({ attributes }: XmlElement) =>
    attributes['presentation:class'] === 'notes' && attributes['presentation:placeholder'] !== 'true';
  const frames = elementsOf(childAt(slide, 'presentation:notes')).filter(isNotes);
  const notes = frames.map((frame) => renderBlocks(readOdfBlocks(frame, references))).join('\n');
  if (notes.trim()) blocks.push(remark('Notes', notes.replace(/\n{2,}/g, '\n')));
  return { title, isHidden: references.styles.isHiddenPage(slide.attributes['draw:style-name']), blocks };
}

function oneLine(blocks: TextBlock[]): string {
  return renderBlocks(blocks.filter((block) => block.kind === 'paragraph')).replace(/\s+/g, ' ');
}

/** The parts of an OpenDocument file that its text is read from. */
type OdfPackage = {
  /** `office:document-content`. */
  content: XmlElement;
  /** `office:document-styles`: styles that have names, and the layout of pages. */
  styles: XmlElement | undefined;
  /** Equations and charts by the address that a frame gives: `office:document-content` or `math:math`. */
  objects: ReadonlyMap<string, XmlElement>;
  title: string | null;
};

/** @throws AppError encrypted_document, corrupt_document */
async function readOdfPackage(bytes: Buffer): Promise<OdfPackage> {
  const parts = await openZipParts(bytes);
  await checkEncryption(parts);
  const content = await readXmlPart(parts, 'content.xml');
  if (!content) throw appError('corrupt_document', { detail: 'The file lacks the part that holds its text.' });
  const objects = new Map<string, XmlElement>();
  for (const { attributes } of descendants(content, 'draw:object')) {
    const address = attributes['xlink:href'] ?? '';
    const object = await readXmlPart(parts, posix.join(address, 'content.xml'));
    if (object) objects.set(address, object);
  }
  const meta = await readXmlPart(parts, 'meta.xml');
  const title = statedTitle(textOf(childAt(meta, 'office:meta', 'dc:title')));
  return { content, styles: await readXmlPart(parts, 'styles.xml'), objects, title };
}

/** Either single parts are encrypted, as the manifest tells, or all of them inside of one. */
async function checkEncryption(parts: ZipParts): Promise<void> {
  const manifest = await readXmlPart(parts, 'META-INF/manifest.xml');
  if (parts.names.includes('encrypted-package') || descendants(manifest, 'manifest:encryption-data').length > 0) {
    throw appError('encrypted_document', {
      detail: 'The file opens only with a password; upload it without the password.',
    });
  }
}

type OdfReferences = {
  styles: OdfStyles;
  objects: ReadonlyMap<string, XmlElement>;
  /** The mark of the next note that is referred to: notes are numbered as they come. */
  nextMark: () => string;
};

/** Deleted text, what a condition hides, remarks, and what is no text. */
const leftOut = new Set([
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

/** The blocks of a text, a section, a cell, a text box or a shape. */
function readOdfBlocks(container: XmlElement | undefined, references: OdfReferences): TextBlock[] {
  return elementsOf(container).flatMap((element) => readBlock(element, references));
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
      return leftOut.has(element.name) ? [] : readOdfBlocks(element, references);
  }
}

function readParagraph(element: XmlElement, references: OdfReferences): TextBlock[] {
  const { text, after } = readInline(element, references);
  if (text.trim() === '') return after;
  if (element.name === 'text:p') {
    const level = references.styles.headingLevel(element.attributes['text:style-name']);
    return [...(level === null ? paragraph(text) : [{ kind: 'heading', level, text } as const]), ...after];
  }
  const level = Math.max(1, Number(element.attributes['text:outline-level'] ?? 1));
  const label = references.styles.nextHeadingLabel(level);
  return [{ kind: 'heading', level, text: label ? `${label} ${text}` : text }, ...after];
}

function readList(element: XmlElement, references: OdfReferences, outer: OdfList | null): TextBlock[] {
  const list = references.styles.openList(element, outer);
  return elementsOf(element).flatMap((item): TextBlock[] => {
    const content = elementsOf(item);
    const inner = content
      .filter(({ name }) => name === 'text:list')
      .flatMap((each) => readList(each, references, list));
    const own = content.filter(({ name }) => name !== 'text:list').flatMap((each) => readBlock(each, references));
    const lines = own.filter((block) => block.kind === 'paragraph');
    if (item.name !== 'text:list-item' || lines.length === 0) return [...own, ...inner];
    const text = lines.map((line) => line.text).join(' ');
    const label = references.styles.nextLabel(list, item);
    const others = own.filter((block) => block.kind !== 'paragraph');
    return [{ kind: 'item', depth: list.depth, label, text }, ...others, ...inner];
  });
}

type Inline = { text: string; after: TextBlock[] };

/** The text of a paragraph, and what is anchored in it and has to stand behind. */
function readInline(element: XmlElement, references: OdfReferences): Inline {
  const after: TextBlock[] = [];

  const readAll = (parent: XmlElement): string => parent.children.map(read).join('');
  function read(node: XmlNode): string {
    if (typeof node === 'string') return node.replace(/\s+/g, ' ');
    if (leftOut.has(node.name) || references.styles.isHiddenText(node.attributes['text:style-name'])) return '';
    switch (node.name) {
      case 'text:s':
      case 'text:tab':
        return ' ';
      case 'text:line-break':
        return '\n';
      case 'text:a':
        return link(readAll(node), node.attributes['xlink:href']);
      case 'text:note':
        return readNote(node);
      case 'office:annotation':
        after.push(readComment(node, references));
        return '';
      case 'draw:frame':
        return readInlineFrame(node);
      default:
        if (!node.name.startsWith('draw:')) return readAll(node);
        addBlocks(after, readOdfBlocks(node, references));
        return '';
    }
  }

  function readNote(note: XmlElement): string {
    const mark = references.nextMark();
    after.push(footnote(mark, renderBlocks(readOdfBlocks(childAt(note, 'text:note-body'), references))));
    return `[^${mark}]`;
  }

  /** Equations and pictures stand among the words, everything else behind them. */
  function readInlineFrame(frame: XmlElement): string {
    const blocks = readFrame(frame, references);
    const [only] = blocks;
    const isText = only?.kind === 'paragraph' && childAt(frame, 'draw:text-box') === undefined;
    if (isText && blocks.length === 1) return ` ${only.text} `;
    addBlocks(after, blocks);
    return '';
  }

  if (references.styles.isHiddenText(element.attributes['text:style-name'])) return { text: '', after };
  return { text: readAll(element).replace(/ {2,}/g, ' '), after };
}

function readComment(annotation: XmlElement, references: OdfReferences): TextBlock {
  const author = textOf(childAt(annotation, 'dc:creator')).trim();
  const lines = elementsOf(annotation).filter(({ name }) => name.startsWith('text:'));
  const text = lines.flatMap((each) => readBlock(each, references));
  return remark(author ? `Comment by ${author}` : 'Comment', renderBlocks(text).replace(/\n{2,}/g, '\n'));
}

/** A text box, a table, an equation, a chart by its numbers, or a picture by its alternative text. */
function readFrame(frame: XmlElement, references: OdfReferences): TextBlock[] {
  const object = references.objects.get(childAt(frame, 'draw:object')?.attributes['xlink:href'] ?? '');
  const content = object ? readObject(object, references) : readOdfBlocks(frame, references);
  if (content.length > 0) return content;
  return paragraph(textOf(childAt(frame, 'svg:desc')) || textOf(childAt(frame, 'svg:title')));
}

function readObject(object: XmlElement, references: OdfReferences): TextBlock[] {
  const [equation] = descendants(object, 'math:annotation').map((each) => textOf(each).trim());
  if (equation) return paragraph(`$${equation}$`);
  const titles = descendants(object, 'chart:title').flatMap((title) => readOdfBlocks(title, references));
  return [...titles, ...descendants(object, 'table:table').flatMap((table) => readOdfTable(table, references))];
}

/** Tables of texts have a few columns; a file may claim any number of equal cells. */
const mostRepeated = 100;

/** A cell over several columns is named once; one over several rows in each row, which may be read alone. */
function readOdfTable(table: XmlElement, references: OdfReferences): TextBlock[] {
  const rows: string[][] = [];
  const asides: TextBlock[] = [];
  const written = rowsOf(table);
  const [only, ...others] = written.flatMap((row) => childrenNamed(row, 'table:table-cell'));
  // One cell is a frame around text.
  if (only && others.length === 0) return readOdfBlocks(only, references);
  const spans: { rows: number; text: string }[] = [];
  for (const row of written) {
    const cells: string[] = [];
    let covered = 0;
    for (const cell of elementsOf(row)) {
      const repeated = count(cell, 'table:number-columns-repeated');
      const isCovered = cell.name === 'table:covered-table-cell';
      const content = isCovered ? null : flattenCell(readOdfBlocks(cell, references));
      addBlocks(asides, content?.asides ?? []);
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
  return elementsOf(container).flatMap((element) => {
    if (element.name === 'table:table-row') return [element];
    return /^table:table-(?:header-rows|rows|row-group)$/.test(element.name) ? rowsOf(element) : [];
  });
}

function count(element: XmlElement, attribute: string): number {
  return Math.min(mostRepeated, Math.max(1, Math.floor(Number(element.attributes[attribute] ?? 1)) || 1));
}
