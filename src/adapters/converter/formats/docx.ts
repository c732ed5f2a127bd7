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
import { type DrawingParts, equation, readDrawingParts } from '../office/drawings.ts';
import {
  childAt,
  childrenNamed,
  descendants,
  elementsOf,
  mainPartName,
  openZipParts,
  packageTitle,
  readRelationships,
  readXmlPart,
  textOf,
  type XmlElement,
  type ZipParts,
} from '../office/xml-parts.ts';
import type { DocumentParser } from '../parsed-document.ts';
import {
  createNumbering,
  type DocxStyle,
  type DocxStyles,
  listPlace,
  type NextNumber,
  outlineLevel,
  readStyles,
  saysHidden,
} from './docx-styles.ts';

/** Parts that hold notes, by the kind of the relationship, with the name of one note. */
const noteParts: Record<string, string> = { footnotes: 'footnote', endnotes: 'endnote', comments: 'comment' };

/** Word: headers, the text with its notes and comments, footers; of pictures their alternative texts. */
export const parseDocx: DocumentParser = async ({ bytes }) => {
  const parts = await openZipParts(bytes);
  const name = await mainPartName(parts, 'word/document.xml');
  const related = await readRelationships(parts, name);
  const partOf = (kind: string) => related.find(({ type }) => type === kind)?.target ?? '';
  let marks = 0;
  const shared = {
    styles: readStyles(await readXmlPart(parts, partOf('styles'))),
    nextNumber: createNumbering(await readXmlPart(parts, partOf('numbering'))),
    notes: await readNotes(parts, related),
    nextMark: () => String(++marks),
  };
  const running = async (kind: string) => {
    const found: TextBlock[] = [];
    for (const { target } of related.filter(({ type }) => type === kind)) {
      const part = await readXmlPart(parts, target);
      const references = await referencesOf(parts, target, shared);
      const lines = elementsOf(part).filter((element) => !countsPages(element));
      addBlocks(found, readBlocks({ name: kind, attributes: {}, children: lines }, references));
    }
    return distinct(found);
  };
  const references = await referencesOf(parts, name, shared);
  const body: TextBlock[] = [];
  // A long text would not be in memory whole beside all that its XML says about it.
  const take = (element: XmlElement) => addBlocks(body, readBlock(element, references));
  const root = await readXmlPart(parts, name, { childrenOf: 'w:body', take });
  if (!root) throw appError('corrupt_document', { detail: 'The file lacks the part that holds its text.' });
  const blocks = [...(await running('header')), ...body, ...(await running('footer'))];
  return { body: renderBlocks(blocks), title: await packageTitle(parts) };
};

async function referencesOf(
  parts: ZipParts,
  partName: string,
  shared: Omit<DocxReferences, 'drawings' | 'links'>,
): Promise<DocxReferences> {
  const related = await readRelationships(parts, partName);
  const links = new Map(related.filter(({ isExternal }) => isExternal).map(({ id, target }) => [id, target]));
  return { ...shared, links, drawings: await readDrawingParts(parts, partName) };
}

async function readNotes(
  parts: ZipParts,
  related: { type: string; target: string }[],
): Promise<Map<string, XmlElement>> {
  const notes = new Map<string, XmlElement>();
  for (const { type, target } of related) {
    const kind = Object.hasOwn(noteParts, type) ? noteParts[type] : undefined;
    if (!kind) continue;
    for (const note of childrenNamed(await readXmlPart(parts, target), `w:${kind}`)) {
      notes.set(`${kind} ${note.attributes['w:id']}`, note);
    }
  }
  return notes;
}

/** What the text of a part refers to. */
type DocxReferences = {
  styles: DocxStyles;
  nextNumber: NextNumber;
  drawings: DrawingParts;
  /** Addresses by the ids of links. */
  links: ReadonlyMap<string, string>;
  /** By kind and id, such as `footnote 2`; of a comment also its author. */
  notes: ReadonlyMap<string, XmlElement>;
  /** The mark of the next note that is referred to: notes are numbered as they come. */
  nextMark: () => string;
};

/** The blocks of a cell, a note or a text box. */
function readBlocks(container: XmlElement | undefined, references: DocxReferences): TextBlock[] {
  return elementsOf(container).flatMap((element) => readBlock(element, references));
}

/** A paragraph, a table, or what is in another element among them. */
function readBlock(element: XmlElement, references: DocxReferences): TextBlock[] {
  if (element.name === 'w:p') return readParagraph(element, references);
  if (element.name === 'w:tbl') return readTable(element, references);
  return leftOut.has(element.name) ? [] : readBlocks(element, references);
}

/** Deleted text, and what is no text: properties, instructions of fields, the second drawing of the same. */
const leftOut = new Set([
  'w:del',
  'w:moveFrom',
  'w:instrText',
  'w:delText',
  'w:sdtPr',
  'w:rPr',
  'w:pPr',
  'mc:Fallback',
]);

/** A style of words turns round what that of their paragraph says (ECMA-376, 17.7.3); they themselves have the last word. */
function isHidden(run: XmlElement, paragraph: DocxStyle, { styles }: DocxReferences): boolean {
  const styleId = childAt(run, 'w:rPr', 'w:rStyle')?.attributes['w:val'];
  const byStyles = paragraph.isHidden !== (styleId !== undefined && styles.of(styleId).isHidden);
  return saysHidden(run) ?? (styles.areHidden || byStyles);
}

function readParagraph(element: XmlElement, references: DocxReferences): TextBlock[] {
  const properties = childAt(element, 'w:pPr');
  const style = references.styles.of(childAt(properties, 'w:pStyle')?.attributes['w:val'] ?? '');
  const level = outlineLevel(properties) ?? style.headingLevel;
  const place = listPlace(properties) ?? (listPlace(properties) === null ? null : style.list);
  const { text, after } = readInline(element, style, references);
  if (text.trim() === '') return after;
  const label = place && references.nextNumber(place);
  if (level !== null) return [{ kind: 'heading', level, text: label ? `${label} ${text}` : text }, ...after];
  if (place) return [{ kind: 'item', depth: place.level, label: label ?? null, text }, ...after];
  return [...paragraph(text), ...after];
}

type Inline = { text: string; after: TextBlock[] };
/** A field between its beginning and its end; `start` is where the text that it shows begins. */
type OpenField = { instruction: string; start: number };

const plainText: Record<string, string> = {
  'w:br': '\n',
  'w:cr': '\n',
  'w:noBreakHyphen': '-',
  'w:ptab': ' ',
  'w:tab': ' ',
};

/** The text of a paragraph, and what is anchored in it and has to stand behind. */
function readInline(element: XmlElement, style: DocxStyle, references: DocxReferences): Inline {
  let text = '';
  const after: TextBlock[] = [];
  const fields: OpenField[] = [];

  const linkFrom = (start: number, address: string | undefined) => {
    text = text.slice(0, start) + link(text.slice(start), address);
  };
  const readers: Record<string, (element: XmlElement) => void> = {
    'w:t': (each) => {
      text += textOf(each);
    },
    'w:hyperlink': (each) => {
      const start = text.length;
      readAll(each);
      linkFrom(start, references.links.get(each.attributes['r:id'] ?? ''));
    },
    'w:fldChar': ({ attributes }) => {
      const kind = attributes['w:fldCharType'];
      if (kind === 'begin') fields.push({ instruction: '', start: text.length });
      if (kind === 'end') {
        const field = fields.pop();
        if (field) linkFrom(field.start, linkOfField(field.instruction));
      }
    },
    'w:instrText': (each) => {
      const field = fields.at(-1);
      if (field) field.instruction += textOf(each);
    },
    'w:fldSimple': (each) => {
      const start = text.length;
      readAll(each);
      linkFrom(start, linkOfField(each.attributes['w:instr'] ?? ''));
    },
    'w:footnoteReference': (each) => readNote('footnote', each),
    'w:endnoteReference': (each) => readNote('endnote', each),
    'w:commentReference': ({ attributes }) => {
      const comment = references.notes.get(`comment ${attributes['w:id']}`);
      const author = comment?.attributes['w:author']?.trim();
      if (comment) after.push(remark(author ? `Comment by ${author}` : 'Comment', noteText(comment)));
    },
    'm:oMath': (each) => {
      const written = equation(each);
      if (written) text += `$${written}$`;
    },
    'wp:docPr': (each) => {
      text += altText(each.attributes.descr);
    },
    'v:imagedata': (each) => {
      text += altText(each.attributes['o:title']);
    },
    'w:txbxContent': (each) => addBlocks(after, readBlocks(each, references)),
    'c:chart': ({ attributes }) => readDrawing(attributes['r:id']),
    'dgm:relIds': ({ attributes }) => readDrawing(attributes['r:dm']),
  };

  function readAll(parent: XmlElement): void {
    for (const child of elementsOf(parent)) {
      const read = readers[child.name];
      if (child.name === 'w:r' && isHidden(child, style, references)) continue;
      if (read) read(child);
      else if (plainText[child.name] !== undefined) text += plainText[child.name];
      else if (!leftOut.has(child.name)) readAll(child);
    }
  }

  function readNote(kind: string, { attributes }: XmlElement): void {
    const note = references.notes.get(`${kind} ${attributes['w:id']}`);
    if (!note) return;
    const mark = references.nextMark();
    text += `[^${mark}]`;
    after.push(footnote(mark, noteText(note)));
  }

  /** A note inside a note is not looked for: a file could have them in a circle. */
  function noteText(note: XmlElement): string {
    return renderBlocks(readBlocks(note, { ...references, notes: new Map() })).replace(/\n{2,}/g, '\n');
  }

  function readDrawing(id: string | undefined): void {
    addBlocks(after, references.drawings.get(id ?? '') ?? []);
  }

  readAll(element);
  return { text, after };
}

function altText(text: string | undefined): string {
  return text?.trim() ? ` ${text.trim()} ` : '';
}

function linkOfField(instruction: string): string | undefined {
  return /^\s*HYPERLINK\s+"([^"]+)"/i.exec(instruction)?.[1];
}

/** The number of the page, which is another one on each: its line says nothing about the document. */
function countsPages(element: XmlElement): boolean {
  const simple = descendants(element, 'w:fldSimple').map((field) => field.attributes['w:instr']);
  const written = descendants(element, 'w:instrText').map(textOf);
  return /\bPAGE\b/i.test([...simple, ...written].join(' '));
}

/** A cell over several columns is named once; one over several rows in each row, which may be read alone. */
function readTable(table: XmlElement, references: DocxReferences): TextBlock[] {
  const rows: string[][] = [];
  const asides: TextBlock[] = [];
  const written = rowsOf(table);
  const [only, ...others] = written.flatMap((row) => rowCells(row));
  // One cell is a frame around text.
  if (only && others.length === 0) return readBlocks(only, references);
  for (const row of written) {
    const cells: string[] = Array(span(childAt(row, 'w:trPr', 'w:gridBefore'))).fill('');
    for (const cell of rowCells(row)) {
      const properties = childAt(cell, 'w:tcPr');
      const merge = childAt(properties, 'w:vMerge');
      const isContinued = merge !== undefined && merge.attributes['w:val'] !== 'restart';
      const content = flattenCell(readBlocks(cell, references));
      addBlocks(asides, content.asides);
      cells.push(isContinued ? (rows.at(-1)?.[cells.length] ?? '') : content.text);
      cells.push(...Array<string>(Math.max(0, span(childAt(properties, 'w:gridSpan')) - 1)).fill(''));
    }
    rows.push(cells);
  }
  return rows.flat().every((cell) => cell === '') ? asides : [{ kind: 'table', rows }, ...asides];
}

function rowsOf(container: XmlElement): XmlElement[] {
  return elementsOf(container).flatMap((element) => {
    if (element.name !== 'w:tr')
      return /^w:(?:sdt|sdtContent|ins|customXml)$/.test(element.name) ? rowsOf(element) : [];
    return childAt(element, 'w:trPr', 'w:del') ? [] : [element];
  });
}

function rowCells(row: XmlElement): XmlElement[] {
  return elementsOf(row).flatMap((element) => {
    if (element.name === 'w:tc') return [element];
    return /^w:(?:sdt|sdtContent|ins|customXml)$/.test(element.name) ? rowCells(element) : [];
  });
}

/** Word tables have 63 columns at most; whatever a file says, a row stays small. */
function span(element: XmlElement | undefined): number {
  return Math.min(63, Math.max(0, Math.floor(Number(element?.attributes['w:val'] ?? 0)) || 0));
}
