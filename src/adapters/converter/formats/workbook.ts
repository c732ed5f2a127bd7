import { type ParsingOptions, read, set_cptable, type WorkBook } from '@e965/xlsx';
import { appError } from '#src/errors.ts';
import { compoundFileSignature } from '../compound-file.ts';
import { type DocumentParser, type ParsedDocument, statedTitle } from '../parsed-document.ts';
import { mostRows, renderSheet } from './workbook-sheet.ts';

const options: ParsingOptions = {
  /** Lists with gaps, so that a cell in the last corner costs no grid. */
  dense: true,
  sheetRows: mostRows,
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
  if (bytes.subarray(0, compoundFileSignature.length).equals(compoundFileSignature))
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
