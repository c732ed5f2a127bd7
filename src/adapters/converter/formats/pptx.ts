import { appError } from '#src/errors.ts';
import {
  appendTextBlocks,
  flattenTableCell,
  markdownLink,
  paragraphBlocks,
  quotedCommentBlock,
  renderTextBlocksAsMarkdown,
  type TextBlock,
} from '../office/blocks.ts';
import { type ChartsAndDiagrams, equationToLatex, readChartsAndDiagrams } from '../office/drawings.ts';
import { formatListNumber, type ListNumberStyle } from '../office/numbering.ts';
import {
  childXmlElementAtPath,
  childXmlElements,
  childXmlElementsNamed,
  descendantXmlElementsNamed,
  findOfficeMainPart,
  openZipParts,
  type PartRelationship,
  readOfficeTitle,
  readRelationships,
  readXmlPart,
  textContentOfXml,
  type XmlElement,
  type ZipParts,
} from '../office/xml-parts.ts';
import type { DocumentParser } from '../parsed-document.ts';

/** Reads PowerPoint files: one page for each slide in show order, with notes and comments; hidden slides are marked. */
export const parsePptx: DocumentParser = async ({ bytes }) => {
  const parts = await openZipParts(bytes);
  const name = await findOfficeMainPart(parts, 'ppt/presentation.xml');
  const root = await readXmlPart(parts, name);
  if (!root) throw appError('corrupt_document', { detail: 'The file lacks the part that lists its slides.' });
  const targets = new Map((await readRelationships(parts, name)).map(({ id, target }) => [id, target]));
  const shown = childXmlElementsNamed(childXmlElementAtPath(root, 'p:sldIdLst'), 'p:sldId').map(
    (slide) => slide.attributes['r:id'] ?? '',
  );
  const pages: string[] = [];
  const titles: string[] = [];
  // Each slide is read only once, because a hostile show can list one slide so often that reading it each time takes
  // hours.
  for (const target of new Set(shown.map((id) => targets.get(id) ?? ''))) {
    const slide = await readXmlPart(parts, target);
    const { title, blocks } = slide ? await readSlide(parts, slide, target) : { title: '', blocks: [] };
    const hidden = slide?.attributes.show === '0' ? ' (hidden slide)' : '';
    const heading: TextBlock = { kind: 'heading', level: 2, text: (title || `Slide ${pages.length + 1}`) + hidden };
    pages.push(title || blocks.length > 0 ? renderTextBlocksAsMarkdown([heading, ...blocks]) : '');
    titles.push(title);
  }
  return { body: pages, title: (await readOfficeTitle(parts)) ?? (titles[0] || null) };
};

async function readSlide(parts: ZipParts, slide: XmlElement, partName: string) {
  const related = await readRelationships(parts, partName);
  const links = new Map(related.filter(({ isExternal }) => isExternal).map(({ id, target }) => [id, target]));
  const layout = await readXmlPart(parts, related.find(({ type }) => type === 'slideLayout')?.target ?? '');
  const drawings = await readChartsAndDiagrams(parts, partName);
  const tree = childXmlElementAtPath(slide, 'p:cSld', 'p:spTree');
  const { title, blocks } = readShapes(tree, { links, drawings, hasBullet: createBulletRule(layout) });
  return { title, blocks: [...blocks, ...(await readRemarks(parts, related))] };
}

async function readRemarks(parts: ZipParts, related: PartRelationship[]): Promise<TextBlock[]> {
  const remarks: TextBlock[] = [];
  for (const { type, target } of related) {
    if (type === 'notesSlide') {
      const shapes = descendantXmlElementsNamed(await readXmlPart(parts, target), 'p:sp').filter((shape) =>
        isPlaceholder(shape, 'body'),
      );
      const notes = shapes.flatMap((shape) => descendantXmlElementsNamed(shape, 'a:p').map(plainText)).join('\n');
      if (notes.trim()) remarks.push(quotedCommentBlock('Notes', notes));
    }
    // Comments of newer PowerPoint versions hold their text in shape paragraphs (`a:p`), not in `p:text`.
    if (type === 'comments') {
      const comments = childXmlElements(await readXmlPart(parts, target)).filter(({ name }) => name.endsWith(':cm'));
      for (const comment of comments) {
        const text =
          textContentOfXml(childXmlElementAtPath(comment, 'p:text')) ||
          descendantXmlElementsNamed(comment, 'a:p').map(plainText).join('\n');
        if (text.trim()) remarks.push(quotedCommentBlock('Comment', text));
      }
    }
  }
  return remarks;
}

function plainText(element: XmlElement): string {
  return descendantXmlElementsNamed(element, 'a:t').map(textContentOfXml).join('');
}

type BulletRule = (paragraph: XmlElement, shape: XmlElement) => 'bullet' | 'number' | 'none';

/** A bullet is set by the paragraph, else its shape, else the slide layout. By default, main text has bullets. */
function createBulletRule(layout: XmlElement | undefined): BulletRule {
  const layoutShapes = descendantXmlElementsNamed(layout, 'p:sp');
  return (paragraph, shape) => {
    const properties = childXmlElementAtPath(paragraph, 'a:pPr');
    const level = `a:lvl${Number(properties?.attributes.lvl ?? 0) + 1}pPr`;
    const placeholder = placeholderOf(shape);
    const ofLayout = layoutShapes.find((each) => isSamePlaceholder(placeholderOf(each), placeholder));
    const sources = [properties, listStyle(shape, level), placeholder && listStyle(ofLayout, level)];
    for (const source of sources) {
      if (childXmlElementAtPath(source, 'a:buNone')) return 'none';
      if (childXmlElementAtPath(source, 'a:buAutoNum')) return 'number';
      if (childXmlElementAtPath(source, 'a:buChar') || childXmlElementAtPath(source, 'a:buBlip')) return 'bullet';
    }
    return placeholder && /^(?:body|obj|)$/.test(placeholder.attributes.type ?? '') ? 'bullet' : 'none';
  };
}

function placeholderOf(shape: XmlElement | undefined): XmlElement | undefined {
  return childXmlElementAtPath(shape, 'p:nvSpPr', 'p:nvPr', 'p:ph');
}

function listStyle(shape: XmlElement | undefined, level: string): XmlElement | undefined {
  return childXmlElementAtPath(shape, 'p:txBody', 'a:lstStyle', level);
}

function isSamePlaceholder(one: XmlElement | undefined, other: XmlElement | undefined): boolean {
  if (!one || !other) return false;
  const isSameIndex = one.attributes.idx !== undefined && one.attributes.idx === other.attributes.idx;
  return isSameIndex || (one.attributes.type !== undefined && one.attributes.type === other.attributes.type);
}

type SlideReferences = {
  links: ReadonlyMap<string, string>;
  drawings: ChartsAndDiagrams;
  hasBullet: BulletRule;
};

const titleTypes = /^(?:title|ctrTitle)$/;
/** Placeholders that repeat on every slide and are left out: number, date, header and footer. */
const runningTypes = /^(?:sldNum|dt|ftr|hdr)$/;

function isPlaceholder(shape: XmlElement, type: string): boolean {
  return placeholderOf(shape)?.attributes.type === type;
}

function readShapes(tree: XmlElement | undefined, references: SlideReferences): { title: string; blocks: TextBlock[] } {
  let title = '';
  const blocks: TextBlock[] = [];
  for (const shape of childXmlElements(tree)) {
    const type = placeholderOf(shape)?.attributes.type ?? '';
    if (titleTypes.test(type) && !title) title = shapeText(shape, references);
    else if (!runningTypes.test(type)) appendTextBlocks(blocks, readShape(shape, references));
  }
  return { title, blocks };
}

function shapeText(shape: XmlElement, references: SlideReferences): string {
  const lines = descendantXmlElementsNamed(shape, 'a:p').map((each) => paragraphText(each, references));
  return lines.join(' ').replace(/\s+/g, ' ').trim();
}

function readShape(shape: XmlElement, references: SlideReferences): TextBlock[] {
  if (isHidden(shape)) return [];
  switch (shape.name) {
    case 'p:sp':
      return readParagraphs(shape, references);
    case 'p:grpSp':
      return childXmlElements(shape).flatMap((each) => readShape(each, references));
    case 'p:pic':
      return paragraphBlocks(childXmlElementAtPath(shape, 'p:nvPicPr', 'p:cNvPr')?.attributes.descr ?? '');
    case 'p:graphicFrame':
      return readFrame(shape, references);
    case 'mc:AlternateContent':
      return childXmlElements(childXmlElementAtPath(shape, 'mc:Choice')).flatMap((each) => readShape(each, references));
    default:
      return [];
  }
}

function isHidden(shape: XmlElement): boolean {
  const properties = childXmlElements(shape)[0];
  return /^(?:1|true)$/.test(childXmlElementAtPath(properties, 'p:cNvPr')?.attributes.hidden ?? '');
}

function readParagraphs(shape: XmlElement, references: SlideReferences): TextBlock[] {
  const counts: number[] = [];
  return childXmlElementsNamed(childXmlElementAtPath(shape, 'p:txBody'), 'a:p').flatMap((element): TextBlock[] => {
    const text = paragraphText(element, references);
    if (text.trim() === '') return [];
    const properties = childXmlElementAtPath(element, 'a:pPr');
    const depth = Math.min(8, Math.max(0, Number(properties?.attributes.lvl ?? 0)));
    const bullet = references.hasBullet(element, shape);
    counts.length = Math.min(counts.length, bullet === 'number' ? depth + 1 : depth);
    if (bullet === 'none') return paragraphBlocks(text);
    if (bullet === 'bullet') return [{ kind: 'item', depth, label: null, text }];
    const numbering = childXmlElementAtPath(properties, 'a:buAutoNum');
    counts[depth] = (counts[depth] ?? Number(numbering?.attributes.startAt ?? 1) - 1) + 1;
    return [{ kind: 'item', depth, label: numberLabel(counts[depth], numbering?.attributes.type), text }];
  });
}

/** Formats PowerPoint's numbering types: `alphaLcParenBoth` gives "(a)", `romanUcPeriod` gives "I.". */
function numberLabel(value: number, type = 'arabicPeriod'): string {
  const styles: [RegExp, ListNumberStyle][] = [
    [/^alphaLc/, 'lowerLetter'],
    [/^alphaUc/, 'upperLetter'],
    [/^romanLc/, 'lowerRoman'],
    [/^romanUc/, 'upperRoman'],
  ];
  const number = formatListNumber(value, styles.find(([start]) => start.test(type))?.[1] ?? 'decimal');
  if (type.endsWith('ParenBoth')) return `(${number})`;
  return type.endsWith('ParenR') ? `${number})` : `${number}.`;
}

function readFrame(frame: XmlElement, references: SlideReferences): TextBlock[] {
  const data = childXmlElementAtPath(frame, 'a:graphic', 'a:graphicData');
  const table = childXmlElementAtPath(data, 'a:tbl');
  if (table) return readTable(table, references);
  const drawing =
    childXmlElementAtPath(data, 'c:chart')?.attributes['r:id'] ??
    childXmlElementAtPath(data, 'dgm:relIds')?.attributes['r:dm'];
  const content = references.drawings.get(drawing ?? '') ?? [];
  const alternative = childXmlElementAtPath(frame, 'p:nvGraphicFramePr', 'p:cNvPr')?.attributes.descr ?? '';
  return content.length > 0 ? content : paragraphBlocks(alternative);
}

/** Repeats the text of a vertically merged cell in each row, because a chunk may hold only one of the rows. */
function readTable(table: XmlElement, references: SlideReferences): TextBlock[] {
  const rows: string[][] = [];
  for (const row of childXmlElementsNamed(table, 'a:tr')) {
    const cells = childXmlElementsNamed(row, 'a:tc').map((cell, column) => {
      if (cell.attributes.vMerge === '1') return rows.at(-1)?.[column] ?? '';
      const lines = descendantXmlElementsNamed(cell, 'a:p').flatMap((each) =>
        paragraphBlocks(paragraphText(each, references)),
      );
      return flattenTableCell(lines).text;
    });
    rows.push(cells);
  }
  return [{ kind: 'table', rows }];
}

function paragraphText(element: XmlElement, references: SlideReferences): string {
  return childXmlElements(element)
    .map((child): string => {
      if (child.name === 'a:br') return '\n';
      if (child.name === 'mc:Fallback') return '';
      if (child.name === 'm:oMath') return `$${equationToLatex(child)}$`;
      if (child.name !== 'a:r' && child.name !== 'a:fld') return paragraphText(child, references);
      const id = childXmlElementAtPath(child, 'a:rPr', 'a:hlinkClick')?.attributes['r:id'];
      return markdownLink(textContentOfXml(childXmlElementAtPath(child, 'a:t')), references.links.get(id ?? ''));
    })
    .join('');
}
