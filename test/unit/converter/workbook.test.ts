import { type BookType, utils, type WorkSheet, write } from '@e965/xlsx';
import { expect } from 'chai';
import iconv from 'iconv-lite';
import { parseExcel } from '#src/adapters/converter/formats/workbook.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { compoundFile } from '#test/support/document-fixtures.ts';

type Cells = (string | number | boolean | Date | null)[][];

describe('reading an Excel file', () => {
  it('returns a page for each sheet of every Excel format', async () => {
    const prices: Cells = [
      ['Item', 'Price', 'Since', 'Stock'],
      ['Bolt | M8', 1234.5, new Date(Date.UTC(2024, 0, 31)), true],
    ];
    const formats = { B2: '#,##0.00', C2: 'dd/mm/yyyy' };
    const sheets = { Prices: sheetOf(prices, formats), Empty: sheetOf([]), Notes: sheetOf([['Only words']]) };
    for (const type of ['xlsx', 'xlsb', 'biff8', 'xlml'] as const) {
      const { body, title } = await parseExcel(fileOf(sheets, type));
      expect(body, type).eql([
        '## Prices\n\n| Item | Price | Since | Stock |\n| --- | --- | --- | --- |\n| Bolt \\| M8 | 1,234.50 | 31/01/2024 | TRUE |',
        '',
        '## Notes\n\nOnly words',
      ]);
      expect(title, type).equal('Price list');
    }
  });

  it('marks hidden sheets and lists comments', async () => {
    const sheet = sheetOf([
      ['Code', 'Name'],
      ['7', 'Seven'],
    ]);
    utils.cell_add_comment(sheet.B2, 'Check\nthis', 'Ann');
    const book = { ...utils.book_new(sheet, 'Codes'), Workbook: { Sheets: [{ Hidden: 1 as const }] } };
    const { body } = await parseExcel({ bytes: write(book, { type: 'buffer' }), fileName: 'a.xlsx' });
    expect(body).eql([
      '## Codes (hidden sheet)\n\n| Code | Name |\n| --- | --- |\n| 7 | Seven |\n\nComments:\n\n- B2: Check this',
    ]);
  });

  it('decodes the code page of old workbooks', async () => {
    const { bytes } = fileOf({ WORD: sheetOf([['NAME', 1]]) }, 'biff5');
    const replace = (from: string, to: Buffer) => to.copy(bytes, bytes.indexOf(from, 0, 'latin1'));
    replace('WORD', iconv.encode('Имя!', 'windows-1251'));
    replace('NAME', iconv.encode('Ёжик', 'windows-1251'));
    // The CODEPAGE record.
    replace('\x42\0\x02\0\xe4\x04', Buffer.from('42000200e304', 'hex'));
    expect((await parseExcel({ bytes, fileName: 'a.xls' })).body).eql(['## Имя!\n\nЁжик | 1']);
  });

  it('rejects an old workbook with a password', async () => {
    const parsed = Promise.resolve(parseExcel({ bytes: lockedXls(), fileName: 'a.xls' }));
    expect(await appErrorCode(parsed)).equal('encrypted_document');
  });
});

function sheetOf(cells: Cells, formats: Record<string, string> = {}): WorkSheet {
  const sheet = utils.aoa_to_sheet(cells, { UTC: true });
  for (const [address, format] of Object.entries(formats)) sheet[address].z = format;
  return sheet;
}

function fileOf(sheets: Record<string, WorkSheet>, bookType: BookType) {
  const book = utils.book_new();
  for (const [name, sheet] of Object.entries(sheets)) utils.book_append_sheet(book, sheet, name);
  book.Props = { Title: 'Price list' };
  const bytes: Buffer = write(book, { type: 'buffer', bookType });
  return { bytes, fileName: `a.${bookType}` };
}

/** A workbook of Excel 97 whose first record says that the others are encrypted, by a method of that time. */
function lockedXls(): Buffer {
  const record = (type: number, content: number[]) =>
    Buffer.from([type & 255, type >> 8, content.length, 0, ...content]);
  const start = record(0x809, [0, 6, 5, 0, 0, 0, 0xcc, 7, 0, 0, 0, 0, 6, 0, 0, 0]);
  const method = record(0x2f, [1, 0, 1, 0, 1, 0, ...Array<number>(48).fill(7)]);
  return compoundFile({ Workbook: Buffer.concat([start, method, Buffer.alloc(8_000)]) });
}
