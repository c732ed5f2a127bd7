import {
  type CellObject,
  type ParsingOptions,
  type Range,
  read,
  set_cptable,
  utils,
  type WorkBook,
  type WorkSheet,
} from '@e965/xlsx';
import { appError } from '#src/errors.ts';
import { renderMarkdownTable } from '../office/blocks.ts';
import {
  childXmlElementAtPath,
  descendantXmlElementsNamed,
  findOfficeMainPart,
  openZipParts,
  readRelationships,
  readXmlPart,
  textContentOfXml,
  type XmlElement,
} from '../office/xml-parts.ts';
import { type DocumentParser, discardDefaultTitle, type ParsedDocument } from '../parsed-document.ts';

const maxRowsPerSheet = 50_000;
const compoundFileSignature = 'd0cf11e0a1b11ae1';

const commonOptions: ParsingOptions = {
  /** The `dense` mode stores rows as sparse arrays, so that a cell in the last corner of a sheet costs no memory. */
  dense: true,
  sheetRows: maxRowsPerSheet,
  /** Replaces date formats that depend on the user's locale by ISO 8601. */
  dateNF: 'yyyy-mm-dd',
  cellHTML: false,
};

/** Includes empty cells (SheetJS stubs), because SheetJS counts Excel formulas without a cached value as empty. */
export const parseExcel: DocumentParser = ({ bytes }) => parseWorkbook(bytes, { ...commonOptions, sheetStubs: true });

/** Leaves out empty cells (SheetJS stubs), which can fill an OpenDocument sheet to its last row and column. */
export const parseOds: DocumentParser = ({ bytes }) => parseWorkbook(bytes, commonOptions);

/** Hidden sheets are marked but read, because other sheets often look up data there. */
async function parseWorkbook(bytes: Buffer, options: ParsingOptions): Promise<ParsedDocument> {
  const book = await openWorkbook(bytes, options);
  const textBoxes = await readTextBoxes(bytes);
  const sheets = book.SheetNames.map((name, index) => {
    const isHidden = Boolean(book.Workbook?.Sheets?.[index]?.Hidden);
    const text = renderSheet(book.Sheets[name] ?? {}, textBoxes.get(name) ?? []);
    return text && `## ${name}${isHidden ? ' (hidden sheet)' : ''}\n\n${text}`;
  });
  return { body: sheets, title: discardDefaultTitle(book.Props?.Title ?? '') };
}

async function openWorkbook(bytes: Buffer, options: ParsingOptions): Promise<WorkBook> {
  // Workbooks older than Excel 97 need code page tables: compound files, and files without a container.
  if (bytes.toString('hex', 0, 8) === compoundFileSignature || bytes[0] === 9)
    set_cptable(await import('@e965/xlsx/dist/cpexcel.full.mjs'));
  try {
    return read(bytes, options);
  } catch (cause) {
    if (cause instanceof Error && /password-protected|encrypt/i.test(cause.message)) {
      throw appError('encrypted_document', {
        detail: 'The workbook opens only with a password; upload it without the password.',
        cause,
      });
    }
    throw cause;
  }
}

type Row = { index: number; texts: string[] };

/** Reads the texts of shapes by the name of their sheet, which SheetJS leaves out. Reads `.xlsx` files only. */
async function readTextBoxes(bytes: Buffer): Promise<Map<string, string[]>> {
  const found = new Map<string, string[]>();
  if (!bytes.includes('xl/drawings/')) return found;
  const parts = await openZipParts(bytes);
  const workbook = await findOfficeMainPart(parts, 'xl/workbook.xml');
  if (!workbook.endsWith('.xml')) return found;
  const targets = new Map((await readRelationships(parts, workbook)).map(({ id, target }) => [id, target]));
  for (const { attributes } of descendantXmlElementsNamed(await readXmlPart(parts, workbook), 'x:sheet')) {
    const related = await readRelationships(parts, targets.get(attributes['r:id'] ?? '') ?? '');
    const drawing = related.find(({ type }) => type === 'drawing');
    const root = drawing && (await readXmlPart(parts, drawing.target));
    const fallbacks = descendantXmlElementsNamed(root, 'mc:Fallback');
    const repeated = new Set(fallbacks.flatMap((each) => descendantXmlElementsNamed(each, 'xdr:sp')));
    const shapes = descendantXmlElementsNamed(root, 'xdr:sp').filter((shape) => !repeated.has(shape));
    found.set(attributes.name ?? '', shapes.flatMap(textOfShape));
  }
  return found;
}

function textOfShape(shape: XmlElement): string[] {
  const { hidden = '' } = childXmlElementAtPath(shape, 'xdr:nvSpPr', 'xdr:cNvPr')?.attributes ?? {};
  if (/^(?:1|true)$/.test(hidden)) return [];
  return descendantXmlElementsNamed(childXmlElementAtPath(shape, 'xdr:txBody'), 'a:p').flatMap((paragraph) => {
    const text = descendantXmlElementsNamed(paragraph, 'a:t').map(textContentOfXml).join('').trim();
    return text === '' ? [] : [text];
  });
}

function renderSheet(sheet: WorkSheet, textBoxes: readonly string[]): string {
  const merges = Map.groupBy(sheet['!merges'] ?? [], ({ s }) => s.r);
  const blocks = joinDetachedHeaders(splitAtEmptyRows(readRows(sheet))).map((block) => renderBlock(block, merges));
  const parts = [...blocks, ...textBoxes, ...renderComments(sheet)];
  return parts.length === 0 ? '' : [...truncationNote(sheet), ...parts].join('\n\n');
}

function readRows(sheet: WorkSheet): Row[] {
  const rows: Row[] = [];
  for (const [index, cells] of cellRows(sheet)) {
    const texts: string[] = [];
    for (const [column, cell] of cells) {
      const text = cellText(cell);
      if (text !== '') texts[column] = text;
    }
    if (texts.length > 0) rows.push({ index, texts });
  }
  return rows;
}

/**
 * Lists filled cells with their indexes, because iterating over a sparse sheet with one cell far out takes too long.
 */
function cellRows(sheet: WorkSheet): [number, [number, CellObject][]][] {
  return numbered(sheet['!data'] ?? []).map(([index, cells]) => [index, numbered(cells)]);
}

function numbered<Value>(list: Value[]): [number, Value][] {
  return Object.entries(list).map(([index, value]) => [Number(index), value]);
}

/** Returns a cell's displayed text, or its formula when the file stores no calculated value. */
function cellText(cell: CellObject): string {
  if (cell.t === 'z') return cell.f === undefined ? '' : `=${cell.f}`;
  // Excel shows a long integer in a narrow column in scientific notation; here all its digits are kept.
  const isShortened = Number.isSafeInteger(cell.v) && /E\+\d+$/.test(cell.w ?? '');
  return String(isShortened ? cell.v : (cell.w ?? cell.v)).trim();
}

function splitAtEmptyRows(rows: Row[]): Row[][] {
  const blocks: Row[][] = [];
  for (const row of rows) {
    const block = blocks.at(-1);
    if (block?.at(-1)?.index === row.index - 1) block.push(row);
    else blocks.push([row]);
  }
  return blocks;
}

/** Puts a header back on the table from which an empty row separates it. */
function joinDetachedHeaders(blocks: Row[][]): Row[][] {
  const joined: Row[][] = [];
  for (const block of blocks) {
    const above = joined.at(-1);
    if (above !== undefined && isHeaderOf(above, block)) above.push(...block);
    else joined.push(block);
  }
  return joined;
}

/** A header ends in a row of texts, two rows above cells of the same columns, of which one in the first row is no text. */
function isHeaderOf(above: Row[], below: Row[]): boolean {
  const [header, first] = [above.at(-1), below[0]];
  if (header === undefined || first === undefined || first.index !== header.index + 2) return false;
  if (above.filter(({ texts }) => filledCount(texts) > 1).length !== 1 || filledCount(header.texts) < 2) return false;
  const names = Object.values(header.texts);
  const columns = Object.keys(header.texts);
  return (
    !names.some((name) => isValue(name) && !isYear(name)) &&
    Object.values(first.texts).some(isValue) &&
    below.every(({ texts }) => Object.keys(texts).every((column) => columns.includes(column)))
  );
}

function isYear(text: string): boolean {
  return /^(?:19|20)\d\d$/.test(text);
}

/** A number, an amount, a share or a date, as displayed. */
function isValue(text: string): boolean {
  return /\d/.test(text) && !/\p{L}/u.test(text);
}

function renderBlock(block: Row[], merges: Map<number, Range[]>): string {
  const columns = [...new Set(block.flatMap(({ texts }) => Object.keys(texts).map(Number)))].sort((a, b) => a - b);
  repeatMergedCells(block, columns, merges);
  const isLine = ({ texts }: Row) => filledCount(texts) === 1 && columns[0] !== undefined && columns[0] in texts;
  const first = block.findIndex((row) => !isLine(row));
  if (first < 0) return block.map(({ texts }) => texts.join('')).join('\n');
  const end = block.findLastIndex((row) => !isLine(row)) + 1;
  const lines = (rows: Row[]) => rows.map(({ texts }) => texts.join(''));
  return [
    ...lines(block.slice(0, first)),
    renderRows(block.slice(first, end), columns),
    ...lines(block.slice(end)),
  ].join('\n\n');
}

/** Renders rows without empty columns. Missing cells stay array holes, because wide sheets are mostly empty. */
function renderRows(rows: Row[], columns: number[]): string {
  const positions = new Map(columns.map((column, position) => [column, position]));
  const [header = [], ...others] = rows.map(({ texts }) => {
    const cells: string[] = [];
    for (const [column, text] of numbered(texts)) cells[positions.get(column) ?? 0] = text;
    return cells;
  });
  return others.length === 0 ? Object.values(header).join(' | ') : renderMarkdownTable(header, others);
}

/** Repeats a merged cell's text in all its rows and columns, but a title across the whole table only once. */
function repeatMergedCells(block: Row[], columns: number[], merges: Map<number, Range[]>): void {
  block.forEach((row, start) => {
    const isTitle = filledCount(row.texts) === 1;
    for (const { s, e } of merges.get(row.index) ?? []) {
      const text = row.texts[s.c];
      if (text === undefined) continue;
      const spanned = columns.filter((column) => column >= s.c && column <= e.c);
      for (let at = isTitle ? start + 1 : start, below = block[at]; below && below.index <= e.r; below = block[++at])
        for (const column of spanned) below.texts[column] ??= text;
    }
  });
}

function filledCount(texts: string[]): number {
  return Object.keys(texts).length;
}

function truncationNote(sheet: WorkSheet): string[] {
  const whole = sheet['!fullref'];
  return typeof whole === 'string' && utils.decode_range(whole).e.r >= maxRowsPerSheet
    ? [`Only the first ${maxRowsPerSheet.toLocaleString('en')} rows of this sheet were read.`]
    : [];
}

function renderComments(sheet: WorkSheet): string[] {
  const comments = cellRows(sheet).flatMap(([r, cells]) =>
    cells.flatMap(([c, cell]) =>
      (cell.c ?? []).map(({ t }) => `- ${utils.encode_cell({ r, c })}: ${t.replace(/\s+/g, ' ').trim()}`),
    ),
  );
  return comments.length === 0 ? [] : [`Comments:\n\n${comments.join('\n')}`];
}
