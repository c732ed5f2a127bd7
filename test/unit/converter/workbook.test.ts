import { type BookType, utils, type WorkSheet, write } from '@e965/xlsx';
import { expect } from 'chai';
import iconv from 'iconv-lite';
import { parseExcel, parseOds } from '#src/adapters/converter/formats/workbook.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { compoundFile } from '#test/support/compound-file.ts';
import { zipFile } from '#test/support/document-fixtures.ts';

type Cells = (string | number | boolean | Date | null)[][];

describe('parseExcel and parseOds', () => {
  it('returns a page for each sheet of every Excel format', async () => {
    const sheets = {
      Prices: sheetOf(
        [
          ['Item', 'Price', 'Since', 'Stock'],
          ['Bolt | M8', 1234.5, new Date(Date.UTC(2024, 0, 31)), true],
        ],
        {
          B2: '#,##0.00',
          C2: 'dd/mm/yyyy',
        },
      ),
      Empty: sheetOf([]),
      Notes: sheetOf([['Only words']]),
    };
    for (const type of ['xlsx', 'xlsb', 'biff8', 'xlml'] as const) {
      const { body, title } = await parseExcel(fileOf(sheets, type));
      expect(body, type).to.eql([
        '## Prices\n\n| Item | Price | Since | Stock |\n| --- | --- | --- | --- |\n| Bolt \\| M8 | 1,234.50 | 31/01/2024 | TRUE |',
        '',
        '## Notes\n\nOnly words',
      ]);
      expect(title, type).to.equal('Price list');
    }
  });

  it('reads OpenDocument spreadsheets with very many empty cells', async () => {
    const cell = (text: string, type = 'string', value = '') =>
      `<table:table-cell office:value-type="${type}" ${value}><text:p>${text}</text:p></table:table-cell>`;
    const rest = '<table:table-cell table:number-columns-repeated="16000"/>';
    const { body } = await parseOds(
      odsFile(
        `<table:table table:name="Prices"><table:table-row>${cell('Item')}${cell('Since')}${rest}</table:table-row>` +
          `<table:table-row>${cell('Bolt')}${cell('31.01.24', 'date', 'office:date-value="2024-01-31"')}${rest}</table:table-row>` +
          `<table:table-row table:number-rows-repeated="1048574">${rest}</table:table-row></table:table>`,
      ),
    );
    expect(body).to.eql(['## Prices\n\n| Item | Since |\n| --- | --- |\n| Bolt | 31.01.24 |']);
  });

  it('renders values as displayed', async () => {
    const sheet = sheetOf(
      [
        ['Share', 'Sum', 'EAN', 'Third', 'Day'],
        [0.125, 9, 4006381333931, 1 / 3, 45322],
      ],
      {
        A2: '0.0%',
        B2: '"€" 0.00',
        E2: 'm/d/yy',
      },
    );
    expect(await textOf(sheet)).to.contain('| 12.5% | € 9.00 | 4006381333931 | 0.333333333 | 2024-01-31 |');
  });

  it('renders the cached value of a formula, or the formula when there is none', async () => {
    const rows =
      '<row r="1"><c r="A1"><v>2</v></c><c r="B1"><f>A1*2</f><v>4</v></c><c r="C1"><f>SUM(A1:B1)</f></c></row>';
    expect((await parseExcel(workbookXml(rows))).body).to.eql(['## One\n\n2 | 4 | =SUM(A1:B1)']);
  });

  it('separates the tables of a sheet, with their titles and notes', async () => {
    const text = await textOf(
      sheetOf([
        ['Sales', null, null],
        ['Region', 'Q1', 'Q2'],
        ['North', 1, 2],
        ['Source: ledger'],
        [],
        [null, 'Name', null, 'Age'],
        [null, 'Ann', null, 30],
      ]),
    );
    expect(text).to.equal(
      'Sales\n\n| Region | Q1 | Q2 |\n| --- | --- | --- |\n| North | 1 | 2 |\n\nSource: ledger\n\n| Name | Age |\n| --- | --- |\n| Ann | 30 |',
    );
  });

  it('repeats a merged cell in every row and column, but a title once', async () => {
    const sheet = sheetOf([
      ['Plan', null, null],
      ['Team', 'First half', null],
      [null, 'Q1', 'Q2'],
      ['North', 1, 2],
      [null, 3, 4],
    ]);
    sheet['!merges'] = ['A1:C1', 'B2:C2', 'A2:A3', 'A4:A5'].map((range) => utils.decode_range(range));
    expect(await textOf(sheet)).to.equal(
      'Plan\n\n| Team | First half | First half |\n| --- | --- | --- |\n| Team | Q1 | Q2 |\n| North | 1 | 2 |\n| North | 3 | 4 |',
    );
  });

  it('marks hidden sheets and lists comments', async () => {
    const sheet = sheetOf([
      ['Code', 'Name'],
      ['7', 'Seven'],
    ]);
    utils.cell_add_comment(sheet.B2, 'Check\nthis', 'Ann');
    const book = bookOf({ Codes: sheet });
    book.Workbook = { Sheets: [{ Hidden: 1 }] };
    const { body } = await parseExcel({ bytes: write(book, { type: 'buffer' }), fileName: 'a.xlsx' });
    expect(body).to.eql([
      '## Codes (hidden sheet)\n\n| Code | Name |\n| --- | --- |\n| 7 | Seven |\n\nComments:\n\n- B2: Check this',
    ]);
  });

  it('handles a cell in the last corner, and notes omitted rows', async () => {
    const corner = '<row r="1"><c r="XFD1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>';
    const { body } = await parseExcel(workbookXml(corner, 'A1:XFD1048576'));
    expect(body).to.eql(['## One\n\nOnly the first 50,000 rows of this sheet were read.\n\n1']);
  });

  it('decodes the code page of old workbooks', async () => {
    const { bytes } = fileOf({ WORD: sheetOf([['NAME', 1]]) }, 'biff5');
    const replace = (from: string, to: string | Buffer) =>
      Buffer.from(to).copy(bytes, bytes.indexOf(from, 0, 'latin1'));
    replace('WORD', iconv.encode('Имя!', 'windows-1251'));
    replace('NAME', iconv.encode('Ёжик', 'windows-1251'));
    // The CODEPAGE record.
    replace('\x42\0\x02\0\xe4\x04', Buffer.from('42000200e304', 'hex'));
    expect((await parseExcel({ bytes, fileName: 'a.xls' })).body).to.eql(['## Имя!\n\nЁжик | 1']);
  });

  it('rejects a workbook with a password as encrypted_document', async () => {
    const manifest =
      '<manifest:file-entry manifest:full-path="content.xml"><manifest:encryption-data/></manifest:file-entry>';
    const file = odsFile('x', manifest);
    expect(await appErrorCode(Promise.resolve(parseOds(file)))).to.equal('encrypted_document');
    const begin = Buffer.from('0908100000060500000000000000000000000000', 'hex');
    const old = compoundFile({ Workbook: Buffer.concat([begin, Buffer.from('2f000600000001020304', 'hex')]) });
    expect(await appErrorCode(Promise.resolve(parseExcel({ bytes: old, fileName: 'a.xls' })))).to.equal(
      'encrypted_document',
    );
  });
});

async function textOf(sheet: WorkSheet): Promise<string> {
  const { body } = await parseExcel(fileOf({ One: sheet }, 'xlsx'));
  return String(body).replace('## One\n\n', '');
}

function sheetOf(cells: Cells, formats: Record<string, string> = {}): WorkSheet {
  const sheet = utils.aoa_to_sheet(cells, { UTC: true });
  for (const [address, format] of Object.entries(formats)) sheet[address].z = format;
  return sheet;
}

function bookOf(sheets: Record<string, WorkSheet>) {
  const book = utils.book_new();
  for (const [name, sheet] of Object.entries(sheets)) utils.book_append_sheet(book, sheet, name);
  book.Props = { Title: 'Price list' };
  return book;
}

function fileOf(sheets: Record<string, WorkSheet>, bookType: BookType) {
  const bytes: Buffer = write(bookOf(sheets), { type: 'buffer', bookType });
  return { bytes, fileName: `a.${bookType}` };
}

/** A workbook with this sheet XML, for content that the library does not write. */
function workbookXml(rows: string, dimension = 'A1:C1') {
  const main = 'http://schemas.openxmlformats.org/spreadsheetml/2006/main';
  const office = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships';
  const package_ = 'http://schemas.openxmlformats.org/package/2006';
  const relation = (type: string, target: string) =>
    `<Relationships xmlns="${package_}/relationships"><Relationship Id="r1" Type="${office}/${type}" Target="${target}"/></Relationships>`;
  const bytes = zipFile({
    '[Content_Types].xml': `<Types xmlns="${package_}/content-types"><Default Extension="xml" ContentType="application/xml"/><Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>`,
    '_rels/.rels': relation('officeDocument', 'xl/workbook.xml'),
    'xl/_rels/workbook.xml.rels': relation('worksheet', 'worksheets/sheet1.xml'),
    'xl/workbook.xml': `<workbook xmlns="${main}" xmlns:r="${office}"><sheets><sheet name="One" sheetId="1" r:id="r1"/></sheets></workbook>`,
    'xl/worksheets/sheet1.xml': `<worksheet xmlns="${main}"><dimension ref="${dimension}"/><sheetData>${rows}</sheetData></worksheet>`,
  });
  return { bytes, fileName: 'a.xlsx' };
}

function odsFile(tables: string, manifestEntries = '<manifest:file-entry manifest:full-path="content.xml"/>') {
  const namespace = (name: string) => `xmlns:${name}="urn:oasis:names:tc:opendocument:xmlns:${name}:1.0"`;
  const content = `<office:document-content ${['office', 'table', 'text'].map(namespace).join(' ')}><office:body><office:spreadsheet>${tables}</office:spreadsheet></office:body></office:document-content>`;
  const bytes = zipFile({
    mimetype: 'application/vnd.oasis.opendocument.spreadsheet',
    'META-INF/manifest.xml': `<manifest:manifest ${namespace('manifest')}>${manifestEntries}</manifest:manifest>`,
    'content.xml': content,
    'styles.xml': '<office:document-styles/>',
  });
  return { bytes, fileName: 'a.ods' };
}
