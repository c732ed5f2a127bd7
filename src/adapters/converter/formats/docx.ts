import { appError } from '#src/errors.ts';
import { decodeText, findDeclaredEncoding } from '../decode-text.ts';
import { htmlToMarkdown, parseHtmlPage } from '../html-to-markdown.ts';
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
import { type ChartsAndDiagrams, equationToLatex, readChartsAndDiagrams } from '../office/drawings.ts';
import {
  childXmlElementAtPath,
  childXmlElements,
  childXmlElementsNamed,
  descendantXmlElementsNamed,
  findOfficeMainPart,
  openOfficeParts,
  readOfficeTitle,
  readRelationships,
  readXmlPart,
  textContentOfXml,
  type XmlElement,
  type ZipParts,
} from '../office/xml-parts.ts';
import type { DocumentParser, ParsedDocument } from '../parsed-document.ts';
import {
  createDocxListNumbering,
  type DocxListNumbering,
  type DocxStyle,
  type DocxStyles,
  readDocxHeadingLevel,
  readDocxHiddenFlag,
  readDocxListPosition,
  readDocxStyles,
} from './docx-styles.ts';

const noteParts: Record<string, string> = { footnotes: 'footnote', endnotes: 'endnote', comments: 'comment' };

/** Reads Word files: headers, text with notes and comments, footers. Replaces pictures by their alternative texts. */
export const parseDocx: DocumentParser = ({ bytes }) => readDocx(bytes, readAlternativeParts);

async function readDocx(bytes: Buffer, readImports: typeof readAlternativeParts): Promise<ParsedDocument> {
  const parts = await openOfficeParts(bytes);
  const name = await findOfficeMainPart(parts, 'word/document.xml');
  const related = await readRelationships(parts, name);
  const partOf = (kind: string) => related.find(({ type }) => type === kind)?.target ?? '';
  let noteCount = 0;
  const shared = {
    styles: readDocxStyles(await readXmlPart(parts, partOf('styles'))),
    nextListLabelOf: createDocxListNumbering(await readXmlPart(parts, partOf('numbering'))),
    notes: await readNotes(parts, related),
    nextMark: () => String(++noteCount),
  };
  const running = async (kind: string) => {
    const found: TextBlock[] = [];
    for (const { target } of related.filter(({ type }) => type === kind)) {
      const part = await readXmlPart(parts, target);
      const references = await referencesOf(parts, target, shared);
      const lines = childXmlElements(part).filter((element) => !hasPageNumber(element));
      appendTextBlocks(found, readBlocks({ name: kind, attributes: {}, children: lines }, references));
    }
    return removeRepeatedTextBlocks(found);
  };
  const references = {
    ...(await referencesOf(parts, name, shared)),
    alternativeParts: await readImports(parts, related),
  };
  const body: TextBlock[] = [];
  // Paragraphs are read one at a time, because the XML tree of a long text would need too much memory.
  const take = (element: XmlElement) => appendTextBlocks(body, readBlock(element, references));
  const root = await readXmlPart(parts, name, { childrenOf: 'w:body', take });
  if (!root) throw appError('corrupt_document', { detail: 'The file lacks the part that holds its text.' });
  const blocks = [...(await running('header')), ...body, ...(await running('footer'))];
  return { body: renderTextBlocksAsMarkdown(blocks), title: await readOfficeTitle(parts) };
}

async function referencesOf(
  parts: ZipParts,
  partName: string,
  shared: Omit<DocxReferences, 'drawings' | 'links'>,
): Promise<DocxReferences> {
  const related = await readRelationships(parts, partName);
  const links = new Map(related.filter(({ isExternal }) => isExternal).map(({ id, target }) => [id, target]));
  return { ...shared, links, drawings: await readChartsAndDiagrams(parts, partName) };
}

/**
 * Some programs write the whole text, or put texts together, as parts in other formats, which Word imports when it
 * opens the file.
 */
async function readAlternativeParts(
  parts: ZipParts,
  related: { id: string; type: string; target: string }[],
): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const { id, type, target } of related) {
    const read = type === 'aFChunk' && alternativeReaders.find(([names]) => names.test(target))?.[1];
    const bytes = read ? await parts.read(target) : null;
    if (read && bytes !== null) found.set(id, (await read(bytes)).trim());
  }
  return found;
}

/** Readers of other formats are loaded only for files that need them. */
const alternativeReaders: [RegExp, (bytes: Buffer) => string | Promise<string>][] = [
  [/\.txt$/i, (bytes) => decodeText(bytes)],
  [/\.x?html?$/i, readHtmlPart],
  [/\.mht(ml)?$/i, async (bytes) => textOf(await (await import('./mail.ts')).parseEml({ bytes, fileName: '' }))],
  [/\.rtf$/i, async (bytes) => textOf(await (await import('./rtf.ts')).parseRtf({ bytes, fileName: '' }))],
  // Parts of a document that is itself a part are left out: a file could hold itself.
  [/\.doc[xm]$/i, async (bytes) => textOf(await readDocx(bytes, async () => new Map()))],
];

function textOf({ body }: ParsedDocument): string {
  return typeof body === 'string' ? body : body.join('\n\n');
}

function readHtmlPart(bytes: Buffer): string {
  const { body } = parseHtmlPage(decodeText(bytes, findDeclaredEncoding(bytes)));
  for (const element of body.querySelectorAll('script, style')) element.remove();
  return htmlToMarkdown(body.innerHTML);
}

async function readNotes(
  parts: ZipParts,
  related: { type: string; target: string }[],
): Promise<Map<string, XmlElement>> {
  const notes = new Map<string, XmlElement>();
  for (const { type, target } of related) {
    const kind = Object.hasOwn(noteParts, type) ? noteParts[type] : undefined;
    if (!kind) continue;
    for (const note of childXmlElementsNamed(await readXmlPart(parts, target), `w:${kind}`)) {
      notes.set(`${kind} ${note.attributes['w:id']}`, note);
    }
  }
  return notes;
}

type DocxReferences = {
  styles: DocxStyles;
  nextListLabelOf: DocxListNumbering;
  drawings: ChartsAndDiagrams;
  links: ReadonlyMap<string, string>;
  /** Markdown of the parts that the text imports, by relationship. */
  alternativeParts?: ReadonlyMap<string, string>;
  /** Footnote, endnote and comment elements by kind and id, such as `footnote 2`. */
  notes: ReadonlyMap<string, XmlElement>;
  nextMark: () => string;
};

function readBlocks(container: XmlElement | undefined, references: DocxReferences): TextBlock[] {
  return childXmlElements(container).flatMap((element) => readBlock(element, references));
}

function readBlock(element: XmlElement, references: DocxReferences): TextBlock[] {
  if (element.name === 'w:p') return readParagraph(element, references);
  if (element.name === 'w:tbl') return readTable(element, references);
  if (element.name === 'w:altChunk')
    return paragraphBlocks(references.alternativeParts?.get(element.attributes['r:id'] ?? '') ?? '');
  return skippedElements.has(element.name) ? [] : readBlocks(element, references);
}

/** Elements that are not read: deleted text, properties, field codes, and copies of drawings for old Word versions. */
const skippedElements = new Set([
  'w:del',
  'w:moveFrom',
  'w:instrText',
  'w:delText',
  'w:sdtPr',
  'w:rPr',
  'w:pPr',
  'mc:Fallback',
]);

/**
 * A hidden character style inverts the hidden flag of the paragraph style (ECMA-376, 17.7.3); run formatting overrides
 * both.
 */
function isHidden(run: XmlElement, paragraph: DocxStyle, { styles }: DocxReferences): boolean {
  const styleId = childXmlElementAtPath(run, 'w:rPr', 'w:rStyle')?.attributes['w:val'];
  const byStyles = paragraph.isHidden !== (styleId !== undefined && styles.of(styleId).isHidden);
  return readDocxHiddenFlag(run) ?? (styles.isHiddenByDefault || byStyles);
}

function readParagraph(element: XmlElement, references: DocxReferences): TextBlock[] {
  const properties = childXmlElementAtPath(element, 'w:pPr');
  const style = references.styles.of(childXmlElementAtPath(properties, 'w:pStyle')?.attributes['w:val'] ?? '');
  const level = readDocxHeadingLevel(properties) ?? style.headingLevel;
  const position = readDocxListPosition(properties) ?? (readDocxListPosition(properties) === null ? null : style.list);
  const { text, after } = readInline(element, style, references);
  if (text.trim() === '') return after;
  const label = position && references.nextListLabelOf(position);
  if (level !== null) return [{ kind: 'heading', level, text: label ? `${label} ${text}` : text }, ...after];
  if (position) return [{ kind: 'item', depth: position.level, label: label ?? null, text }, ...after];
  return [...paragraphBlocks(text), ...after];
}

type Inline = { text: string; after: TextBlock[] };
type OpenField = { instruction: string; start: number };

const plainText: Record<string, string> = {
  'w:br': '\n',
  'w:cr': '\n',
  'w:noBreakHyphen': '-',
  'w:ptab': ' ',
  'w:tab': ' ',
};

function readInline(element: XmlElement, style: DocxStyle, references: DocxReferences): Inline {
  let text = '';
  const after: TextBlock[] = [];
  const fields: OpenField[] = [];

  const linkFrom = (start: number, address: string | undefined) => {
    text = text.slice(0, start) + markdownLink(text.slice(start), address);
  };
  const readers: Record<string, (element: XmlElement) => void> = {
    'w:t': (each) => {
      text += textContentOfXml(each);
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
      if (field) field.instruction += textContentOfXml(each);
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
      if (comment) after.push(quotedCommentBlock(author ? `Comment by ${author}` : 'Comment', noteText(comment)));
    },
    'm:oMath': (each) => {
      const written = equationToLatex(each);
      if (written) text += `$${written}$`;
    },
    'wp:docPr': (each) => {
      text += altText(each.attributes.descr);
    },
    'v:imagedata': (each) => {
      text += altText(each.attributes['o:title']);
    },
    'w:txbxContent': (each) => appendTextBlocks(after, readBlocks(each, references)),
    'c:chart': ({ attributes }) => readDrawing(attributes['r:id']),
    'dgm:relIds': ({ attributes }) => readDrawing(attributes['r:dm']),
  };

  function readAll(parent: XmlElement): void {
    for (const child of childXmlElements(parent)) {
      const read = readers[child.name];
      if (child.name === 'w:r' && isHidden(child, style, references)) continue;
      if (read) read(child);
      else if (plainText[child.name] !== undefined) text += plainText[child.name];
      else if (!skippedElements.has(child.name)) readAll(child);
    }
  }

  function readNote(kind: string, { attributes }: XmlElement): void {
    const note = references.notes.get(`${kind} ${attributes['w:id']}`);
    if (!note) return;
    const mark = references.nextMark();
    text += `[^${mark}]`;
    after.push(footnoteBlock(mark, noteText(note)));
  }

  /** Notes inside notes are not read, because they could refer to each other in a cycle. */
  function noteText(note: XmlElement): string {
    return renderTextBlocksAsMarkdown(readBlocks(note, { ...references, notes: new Map() })).replace(/\n{2,}/g, '\n');
  }

  function readDrawing(id: string | undefined): void {
    appendTextBlocks(after, references.drawings.get(id ?? '') ?? []);
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

/**
 * Whether a header or footer line has a page number field. Such lines are left out, because they differ on each page.
 */
function hasPageNumber(element: XmlElement): boolean {
  const simple = descendantXmlElementsNamed(element, 'w:fldSimple').map((field) => field.attributes['w:instr']);
  const written = descendantXmlElementsNamed(element, 'w:instrText').map(textContentOfXml);
  return /\bPAGE\b/i.test([...simple, ...written].join(' '));
}

/** Repeats the text of a vertically merged cell in each row, because a chunk may hold only one of the rows. */
function readTable(table: XmlElement, references: DocxReferences): TextBlock[] {
  const rows: string[][] = [];
  const asides: TextBlock[] = [];
  const written = rowsOf(table);
  const [only, ...others] = written.flatMap((row) => rowCells(row));
  if (only && others.length === 0) return readBlocks(only, references);
  for (const row of written) {
    const cells: string[] = Array(span(childXmlElementAtPath(row, 'w:trPr', 'w:gridBefore'))).fill('');
    for (const cell of rowCells(row)) {
      const properties = childXmlElementAtPath(cell, 'w:tcPr');
      const merge = childXmlElementAtPath(properties, 'w:vMerge');
      const isContinued = merge !== undefined && merge.attributes['w:val'] !== 'restart';
      const content = flattenTableCell(readBlocks(cell, references));
      appendTextBlocks(asides, content.asides);
      cells.push(isContinued ? (rows.at(-1)?.[cells.length] ?? '') : content.text);
      cells.push(...Array<string>(Math.max(0, span(childXmlElementAtPath(properties, 'w:gridSpan')) - 1)).fill(''));
    }
    rows.push(cells);
  }
  return rows.flat().every((cell) => cell === '') ? asides : [{ kind: 'table', rows }, ...asides];
}

function rowsOf(container: XmlElement): XmlElement[] {
  return childXmlElements(container).flatMap((element) => {
    if (element.name !== 'w:tr')
      return /^w:(?:sdt|sdtContent|ins|customXml)$/.test(element.name) ? rowsOf(element) : [];
    return childXmlElementAtPath(element, 'w:trPr', 'w:del') ? [] : [element];
  });
}

function rowCells(row: XmlElement): XmlElement[] {
  return childXmlElements(row).flatMap((element) => {
    if (element.name === 'w:tc') return [element];
    return /^w:(?:sdt|sdtContent|ins|customXml)$/.test(element.name) ? rowCells(element) : [];
  });
}

/** Word tables have at most 63 columns; a larger column span is reduced to 63. */
function span(element: XmlElement | undefined): number {
  return Math.min(63, Math.max(0, Math.floor(Number(element?.attributes['w:val'] ?? 0)) || 0));
}
