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
import { renderTable } from '../office/blocks.ts';
import { type DocumentParser, type ParsedDocument, statedTitle } from '../parsed-document.ts';

/** Longer sheets are cut there, with a note. */
const maxRowsPerSheet = 50_000;
/** The first bytes of a compound file (MS-CFB), which workbooks until Excel 2003 are. */
const compoundFileSignature = 'd0cf11e0a1b11ae1';

const options: ParsingOptions = {
  /** Lists with gaps, so that a cell in the last corner costs no grid. */
  dense: true,
  sheetRows: maxRowsPerSheet,
  /** For dates that every computer shows in the way of its country. */
  dateNF: 'yyyy-mm-dd',
  cellHTML: false,
};

/** Excel of any age. Formulas that no program has worked out yet are among the cells that pass for empty. */
export const parseExcel: DocumentParser = ({ bytes }) => parse(bytes, { ...options, sheetStubs: true });

/** OpenDocument, where empty cells fill the sheet to its last corner. */
export const parseOds: DocumentParser = ({ bytes }) => parse(bytes, options);

/**
 * Each sheet is a page, with its values as they are shown. Hidden sheets are read and marked, since tables that others
 * look into are often hidden.
 */
async function parse(bytes: Buffer, how: ParsingOptions): Promise<ParsedDocument> {
  const book = await open(bytes, how);
  const sheets = book.SheetNames.map((name, index) => {
    const isHidden = Boolean(book.Workbook?.Sheets?.[index]?.Hidden);
    const text = renderSheet(book.Sheets[name] ?? {});
    return text && `## ${name}${isHidden ? ' (hidden sheet)' : ''}\n\n${text}`;
  });
  return { body: sheets, title: statedTitle(book.Props?.Title ?? '') };
}

async function open(bytes: Buffer, how: ParsingOptions): Promise<WorkBook> {
  // Only workbooks from before Excel 97 are not in Unicode.
  if (bytes.toString('hex', 0, 8) === compoundFileSignature)
    set_cptable(await import('@e965/xlsx/dist/cpexcel.full.mjs'));
  try {
    return read(bytes, how);
  } catch (cause) {
    if (cause instanceof Error && /password-protected|encrypt/i.test(cause.message)) {
      throw appError('encrypted_document', { detail: 'The workbook has a password; upload it without.', cause });
    }
    throw cause;
  }
}

/** A row with something in it: its number, from 0, and its texts by column, with gaps. */
type Row = { index: number; texts: string[] };

/** The tables, texts and comments of a sheet; empty when it has none. */
function renderSheet(sheet: WorkSheet): string {
  const merges = Map.groupBy(sheet['!merges'] ?? [], ({ s }) => s.r);
  const blocks = splitAtEmptyRows(readRows(sheet)).map((block) => renderBlock(block, merges));
  const parts = [...blocks, ...renderComments(sheet)];
  return parts.length === 0 ? '' : [...noteOfMore(sheet), ...parts].join('\n\n');
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

/** What is there with its numbers: a single cell far out makes long lists with nothing in them. */
function cellRows(sheet: WorkSheet): [number, [number, CellObject][]][] {
  return numbered(sheet['!data'] ?? []).map(([index, cells]) => [index, numbered(cells)]);
}

function numbered<Value>(list: Value[]): [number, Value][] {
  return Object.entries(list).map(([index, value]) => [Number(index), value]);
}

/** As a person sees it; a formula that nothing has worked out yet is shown itself. */
function cellText(cell: CellObject): string {
  if (cell.t === 'z') return cell.f === undefined ? '' : `=${cell.f}`;
  // A long article number is shown in powers of ten for want of room only.
  const isShortened = Number.isSafeInteger(cell.v) && /E\+\d+$/.test(cell.w ?? '');
  return String(isShortened ? cell.v : (cell.w ?? cell.v)).trim();
}

/** Tables of one sheet have empty rows between them. */
function splitAtEmptyRows(rows: Row[]): Row[][] {
  const blocks: Row[][] = [];
  for (const row of rows) {
    const block = blocks.at(-1);
    if (block?.at(-1)?.index === row.index - 1) block.push(row);
    else blocks.push([row]);
  }
  return blocks;
}

/** Lines above and below a table that fill one cell are its title and its notes. */
function renderBlock(block: Row[], merges: Map<number, Range[]>): string {
  const columns = [...new Set(block.flatMap(({ texts }) => Object.keys(texts).map(Number)))].sort((a, b) => a - b);
  repeatMerged(block, columns, merges);
  const isLine = ({ texts }: Row) => countOf(texts) === 1 && columns[0] !== undefined && columns[0] in texts;
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

/** Columns without a text are left out; what is missing in a row stays a gap, as a wide sheet has mostly gaps. */
function renderRows(rows: Row[], columns: number[]): string {
  const positions = new Map(columns.map((column, position) => [column, position]));
  const [header = [], ...others] = rows.map(({ texts }) => {
    const cells: string[] = [];
    for (const [column, text] of numbered(texts)) cells[positions.get(column) ?? 0] = text;
    return cells;
  });
  return others.length === 0 ? Object.values(header).join(' | ') : renderTable(header, others);
}

/** A merged cell counts for every row and column that it spans; a title over the whole table is said once. */
function repeatMerged(block: Row[], columns: number[], merges: Map<number, Range[]>): void {
  block.forEach((row, start) => {
    const isTitle = countOf(row.texts) === 1;
    for (const { s, e } of merges.get(row.index) ?? []) {
      const text = row.texts[s.c];
      if (text === undefined) continue;
      const spanned = columns.filter((column) => column >= s.c && column <= e.c);
      for (let at = isTitle ? start + 1 : start, below = block[at]; below && below.index <= e.r; below = block[++at])
        for (const column of spanned) below.texts[column] ??= text;
    }
  });
}

function countOf(texts: string[]): number {
  return Object.keys(texts).length;
}

function noteOfMore(sheet: WorkSheet): string[] {
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
