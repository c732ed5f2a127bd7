import { appError } from '#src/errors.ts';
import { addBlocks, flattenCell, link, paragraph, remark, renderBlocks, type TextBlock } from '../office/blocks.ts';
import { type DrawingParts, equation, readDrawingParts } from '../office/drawings.ts';
import { formatNumber, type NumberStyle } from '../office/numbering.ts';
import {
  childAt,
  childrenNamed,
  descendants,
  elementsOf,
  mainPartName,
  openZipParts,
  packageTitle,
  type Relationship,
  readRelationships,
  readXmlPart,
  textOf,
  type XmlElement,
  type ZipParts,
} from '../office/xml-parts.ts';
import type { DocumentParser } from '../parsed-document.ts';

/** PowerPoint: a page for each slide in the order of the show, with its notes and comments; hidden slides say so. */
export const parsePptx: DocumentParser = async ({ bytes }) => {
  const parts = await openZipParts(bytes);
  const name = await mainPartName(parts, 'ppt/presentation.xml');
  const root = await readXmlPart(parts, name);
  if (!root) throw appError('corrupt_document', { detail: 'The file lacks the part that lists its slides.' });
  const targets = new Map((await readRelationships(parts, name)).map(({ id, target }) => [id, target]));
  const shown = childrenNamed(childAt(root, 'p:sldIdLst'), 'p:sldId').map((slide) => slide.attributes['r:id'] ?? '');
  const pages: string[] = [];
  const titles: string[] = [];
  // No slide is in a show twice: a file that says so would keep its reader busy for hours.
  for (const target of new Set(shown.map((id) => targets.get(id) ?? ''))) {
    const slide = await readXmlPart(parts, target);
    const { title, blocks } = slide ? await readSlide(parts, slide, target) : { title: '', blocks: [] };
    const hidden = slide?.attributes.show === '0' ? ' (hidden slide)' : '';
    const heading: TextBlock = { kind: 'heading', level: 2, text: (title || `Slide ${pages.length + 1}`) + hidden };
    pages.push(title || blocks.length > 0 ? renderBlocks([heading, ...blocks]) : '');
    titles.push(title);
  }
  return { body: pages, title: (await packageTitle(parts)) ?? (titles[0] || null) };
};

async function readSlide(parts: ZipParts, slide: XmlElement, partName: string) {
  const related = await readRelationships(parts, partName);
  const links = new Map(related.filter(({ isExternal }) => isExternal).map(({ id, target }) => [id, target]));
  const layout = await readXmlPart(parts, related.find(({ type }) => type === 'slideLayout')?.target ?? '');
  const drawings = await readDrawingParts(parts, partName);
  const tree = childAt(slide, 'p:cSld', 'p:spTree');
  const { title, blocks } = readShapes(tree, { links, drawings, hasBullet: createBulletRule(layout) });
  return { title, blocks: [...blocks, ...(await readRemarks(parts, related))] };
}

/** What the speaker has noted, and what others have said about the slide. */
async function readRemarks(parts: ZipParts, related: Relationship[]): Promise<TextBlock[]> {
  const remarks: TextBlock[] = [];
  for (const { type, target } of related) {
    if (type === 'notesSlide') {
      const shapes = descendants(await readXmlPart(parts, target), 'p:sp').filter((shape) =>
        isPlaceholder(shape, 'body'),
      );
      const notes = shapes.flatMap((shape) => descendants(shape, 'a:p').map(plainText)).join('\n');
      if (notes.trim()) remarks.push(remark('Notes', notes));
    }
    // Newer comments have another vocabulary, and their texts are those of shapes.
    if (type === 'comments') {
      const comments = elementsOf(await readXmlPart(parts, target)).filter(({ name }) => name.endsWith(':cm'));
      for (const comment of comments) {
        const text = textOf(childAt(comment, 'p:text')) || descendants(comment, 'a:p').map(plainText).join('\n');
        if (text.trim()) remarks.push(remark('Comment', text));
      }
    }
  }
  return remarks;
}

function plainText(element: XmlElement): string {
  return descendants(element, 'a:t').map(textOf).join('');
}

/** Whether a paragraph of a shape is an item of a list, and of which kind. */
type BulletRule = (paragraph: XmlElement, shape: XmlElement) => 'bullet' | 'number' | 'none';

/** The paragraph decides, else its shape, else the layout of the slide; the main text of a slide is a list by itself. */
function createBulletRule(layout: XmlElement | undefined): BulletRule {
  const layoutShapes = descendants(layout, 'p:sp');
  return (paragraph, shape) => {
    const properties = childAt(paragraph, 'a:pPr');
    const level = `a:lvl${Number(properties?.attributes.lvl ?? 0) + 1}pPr`;
    const placeholder = placeholderOf(shape);
    const ofLayout = layoutShapes.find((each) => isSamePlaceholder(placeholderOf(each), placeholder));
    const sources = [properties, listStyle(shape, level), placeholder && listStyle(ofLayout, level)];
    for (const source of sources) {
      if (childAt(source, 'a:buNone')) return 'none';
      if (childAt(source, 'a:buAutoNum')) return 'number';
      if (childAt(source, 'a:buChar') || childAt(source, 'a:buBlip')) return 'bullet';
    }
    return placeholder && /^(?:body|obj|)$/.test(placeholder.attributes.type ?? '') ? 'bullet' : 'none';
  };
}

function placeholderOf(shape: XmlElement | undefined): XmlElement | undefined {
  return childAt(shape, 'p:nvSpPr', 'p:nvPr', 'p:ph');
}

function listStyle(shape: XmlElement | undefined, level: string): XmlElement | undefined {
  return childAt(shape, 'p:txBody', 'a:lstStyle', level);
}

function isSamePlaceholder(one: XmlElement | undefined, other: XmlElement | undefined): boolean {
  if (!one || !other) return false;
  const isSameIndex = one.attributes.idx !== undefined && one.attributes.idx === other.attributes.idx;
  return isSameIndex || (one.attributes.type !== undefined && one.attributes.type === other.attributes.type);
}

type SlideReferences = {
  /** Addresses by the ids of links. */
  links: ReadonlyMap<string, string>;
  drawings: DrawingParts;
  hasBullet: BulletRule;
};

const titleTypes = /^(?:title|ctrTitle)$/;
/** What every slide says: its number, the date, the footer. */
const runningTypes = /^(?:sldNum|dt|ftr|hdr)$/;

function isPlaceholder(shape: XmlElement, type: string): boolean {
  return placeholderOf(shape)?.attributes.type === type;
}

/** The title of a slide, and what its shapes say in the order in which a screen reader says it. */
function readShapes(tree: XmlElement | undefined, references: SlideReferences): { title: string; blocks: TextBlock[] } {
  let title = '';
  const blocks: TextBlock[] = [];
  for (const shape of elementsOf(tree)) {
    const type = placeholderOf(shape)?.attributes.type ?? '';
    if (titleTypes.test(type) && !title) title = shapeText(shape, references);
    else if (!runningTypes.test(type)) addBlocks(blocks, readShape(shape, references));
  }
  return { title, blocks };
}

function shapeText(shape: XmlElement, references: SlideReferences): string {
  const lines = descendants(shape, 'a:p').map((each) => paragraphText(each, references));
  return lines.join(' ').replace(/\s+/g, ' ').trim();
}

function readShape(shape: XmlElement, references: SlideReferences): TextBlock[] {
  if (isHidden(shape)) return [];
  switch (shape.name) {
    case 'p:sp':
      return readParagraphs(shape, references);
    case 'p:grpSp':
      return elementsOf(shape).flatMap((each) => readShape(each, references));
    case 'p:pic':
      return paragraph(childAt(shape, 'p:nvPicPr', 'p:cNvPr')?.attributes.descr ?? '');
    case 'p:graphicFrame':
      return readFrame(shape, references);
    case 'mc:AlternateContent':
      return elementsOf(childAt(shape, 'mc:Choice')).flatMap((each) => readShape(each, references));
    default:
      return [];
  }
}

function isHidden(shape: XmlElement): boolean {
  const properties = elementsOf(shape)[0];
  return /^(?:1|true)$/.test(childAt(properties, 'p:cNvPr')?.attributes.hidden ?? '');
}

function readParagraphs(shape: XmlElement, references: SlideReferences): TextBlock[] {
  const counts: number[] = [];
  return childrenNamed(childAt(shape, 'p:txBody'), 'a:p').flatMap((element): TextBlock[] => {
    const text = paragraphText(element, references);
    if (text.trim() === '') return [];
    const properties = childAt(element, 'a:pPr');
    const depth = Math.min(8, Math.max(0, Number(properties?.attributes.lvl ?? 0)));
    const bullet = references.hasBullet(element, shape);
    counts.length = Math.min(counts.length, bullet === 'number' ? depth + 1 : depth);
    if (bullet === 'none') return paragraph(text);
    if (bullet === 'bullet') return [{ kind: 'item', depth, label: null, text }];
    const numbering = childAt(properties, 'a:buAutoNum');
    counts[depth] = (counts[depth] ?? Number(numbering?.attributes.startAt ?? 1) - 1) + 1;
    return [{ kind: 'item', depth, label: numberLabel(counts[depth], numbering?.attributes.type), text }];
  });
}

/** `alphaLcParenBoth` is "(a)", `romanUcPeriod` "I.": the kind of number, then the signs around it. */
function numberLabel(value: number, type = 'arabicPeriod'): string {
  const styles: [RegExp, NumberStyle][] = [
    [/^alphaLc/, 'lowerLetter'],
    [/^alphaUc/, 'upperLetter'],
    [/^romanLc/, 'lowerRoman'],
    [/^romanUc/, 'upperRoman'],
  ];
  const number = formatNumber(value, styles.find(([start]) => start.test(type))?.[1] ?? 'decimal');
  if (type.endsWith('ParenBoth')) return `(${number})`;
  return type.endsWith('ParenR') ? `${number})` : `${number}.`;
}

function readFrame(frame: XmlElement, references: SlideReferences): TextBlock[] {
  const data = childAt(frame, 'a:graphic', 'a:graphicData');
  const table = childAt(data, 'a:tbl');
  if (table) return readTable(table, references);
  const drawing = childAt(data, 'c:chart')?.attributes['r:id'] ?? childAt(data, 'dgm:relIds')?.attributes['r:dm'];
  const content = references.drawings.get(drawing ?? '') ?? [];
  const alternative = childAt(frame, 'p:nvGraphicFramePr', 'p:cNvPr')?.attributes.descr ?? '';
  return content.length > 0 ? content : paragraph(alternative);
}

/** As in Word files: a cell over several columns is named once, one over several rows in each row. */
function readTable(table: XmlElement, references: SlideReferences): TextBlock[] {
  const rows: string[][] = [];
  for (const row of childrenNamed(table, 'a:tr')) {
    const cells = childrenNamed(row, 'a:tc').map((cell, column) => {
      if (cell.attributes.vMerge === '1') return rows.at(-1)?.[column] ?? '';
      const lines = descendants(cell, 'a:p').flatMap((each) => paragraph(paragraphText(each, references)));
      return flattenCell(lines).text;
    });
    rows.push(cells);
  }
  return [{ kind: 'table', rows }];
}

function paragraphText(element: XmlElement, references: SlideReferences): string {
  return elementsOf(element)
    .map((child): string => {
      if (child.name === 'a:br') return '\n';
      if (child.name === 'mc:Fallback') return '';
      if (child.name === 'm:oMath') return `$${equation(child)}$`;
      if (child.name !== 'a:r' && child.name !== 'a:fld') return paragraphText(child, references);
      const id = childAt(child, 'a:rPr', 'a:hlinkClick')?.attributes['r:id'];
      return link(textOf(childAt(child, 'a:t')), references.links.get(id ?? ''));
    })
    .join('');
}
