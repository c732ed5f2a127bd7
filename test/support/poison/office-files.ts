import { compoundFile } from '#test/support/compound-file.ts';
import { docxFile, docxParagraph, zipFile } from '#test/support/document-fixtures.ts';
import { odfFile, officeNames, relationshipsPart } from '#test/support/office-fixtures.ts';

/** Ten to the ninth laughs of ten entities. */
export const laughingXml = entityXml(
  ['<!ENTITY l0 "ha">', ...Array.from({ length: 9 }, (_, level) => entity(level))].join(''),
  '&l9;',
);

/** The file that a reader of XML would show, if it looked at what a document type names. */
export const fetchingXml = entityXml('<!ENTITY l SYSTEM "file:///etc/passwd">', '&l;');

function entity(level: number): string {
  return `<!ENTITY l${level + 1} "${`&l${level};`.repeat(10)}">`;
}

function entityXml(entities: string, text: string): string {
  return `<?xml version="1.0"?><!DOCTYPE l [${entities}]><l>${text}</l>`;
}

export const docxWith = (documentXml: string, encoding: BufferEncoding = 'utf8') =>
  docxFile('', { 'word/document.xml': Buffer.from(documentXml, encoding) });
export const odtWith = (contentXml: string) => odfFile('text', '', { parts: { 'content.xml': contentXml } });

/** A workbook around the XML of what its only sheet holds. */
export function xlsxWith(sheet: string, parts: Record<string, string> = {}): Buffer {
  const main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"';
  return zipFile({
    '_rels/.rels': relationshipsPart({ r1: ['officeDocument', 'xl/workbook.xml'] }),
    '[Content_Types].xml':
      '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>',
    'xl/workbook.xml': `<workbook ${main} ${officeNames}><sheets><sheet name="Far" sheetId="1" r:id="r1"/></sheets></workbook>`,
    'xl/_rels/workbook.xml.rels': relationshipsPart({ r1: ['worksheet', 'worksheets/sheet1.xml'] }),
    'xl/worksheets/sheet1.xml': `<worksheet ${main}>${sheet}</worksheet>`,
    ...parts,
  });
}

export function emptyParts(count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, part) => [`word/${part}.xml`, '']));
}

/** Tables in the cells of tables; their names are no two the same, so that they pack badly. */
export function docxOfTables(depth: number): Buffer {
  const begin = Array.from({ length: depth }, (_, index) => `<w:tbl a="${index * 7_919}"><w:tr><w:tc>`);
  return docxFile(begin.join('') + '</w:tc></w:tr></w:tbl>'.repeat(depth));
}

/** A table whose one cell says that it is so many columns wide. */
export function wideTable(columns: number): string {
  const cell = (properties: string) => `<w:tr><w:tc>${properties}${docxParagraph('words')}</w:tc></w:tr>`;
  return `<w:tbl>${cell(`<w:tcPr><w:gridSpan w:val="${columns}"/></w:tcPr>`)}${cell('')}</w:tbl>`;
}

/** One text in the last cell that a sheet can have. */
export const farCell = xlsxWith(
  '<dimension ref="A1:XFD1048576"/><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>near</t></is></c></row><row r="1048576"><c r="XFD1048576" t="inlineStr"><is><t>far</t></is></c></row></sheetData><mergeCells count="1"><mergeCell ref="A1:XFD1048576"/></mergeCells>',
);

/** Rows and columns that are said to be repeated a thousand million times. */
export function odsOfRepeats(): Buffer {
  const name = (prefix: string) => `xmlns:${prefix}="urn:oasis:names:tc:opendocument:xmlns:${prefix}:1.0"`;
  const cell =
    '<table:table-cell table:number-columns-repeated="1000000000" office:value-type="string"><text:p>x</text:p></table:table-cell>';
  const rows = `<table:table-row table:number-rows-repeated="1000000000">${cell}</table:table-row>`;
  return zipFile({
    mimetype: 'application/vnd.oasis.opendocument.spreadsheet',
    'content.xml': `<office:document-content ${['office', 'table', 'text'].map(name).join(' ')}><office:body><office:spreadsheet><table:table table:name="S">${rows}</table:table></office:spreadsheet></office:body></office:document-content>`,
  });
}

/** A presentation of so many slides, all of them the same part. */
export function pptxOfSlides(count: number): Buffer {
  // Numbers that look random pack less well: the file is not refused as a bomb.
  const ids = Array.from({ length: count }, (_, index) => `s${(index * 2_654_435_761) % 4_294_967_296}`);
  return zipFile({
    '_rels/.rels': relationshipsPart({ r1: ['officeDocument', 'ppt/presentation.xml'] }),
    'ppt/presentation.xml': `<p:presentation ${officeNames}><p:sldIdLst>${ids.map((id) => `<p:sldId r:id="${id}"/>`).join('')}</p:sldIdLst></p:presentation>`,
    'ppt/_rels/presentation.xml.rels': relationshipsPart(
      Object.fromEntries(ids.map((id) => [id, ['slide', 'slides/slide1.xml']])),
    ),
    'ppt/slides/slide1.xml': `<p:sld ${officeNames}><p:cSld><p:spTree><p:sp><p:txBody><a:p><a:r><a:t>words</a:t></a:r></a:p></p:txBody></p:sp></p:spTree></p:cSld></p:sld>`,
  });
}

/** A book whose spine names its only chapter again and again. */
export function epubOfCircle(times: number): Buffer {
  const chapters = Array.from(
    { length: times },
    (_, index) => `<itemref idref="a" id="r${(index * 2_654_435_761) % 4_294_967_296}"/>`,
  );
  return zipFile({
    mimetype: 'application/epub+zip',
    'META-INF/container.xml':
      '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="book.opf"/></rootfiles></container>',
    'book.opf': `<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="a" href="a.xhtml" media-type="application/xhtml+xml"/></manifest><spine>${chapters.join('')}</spine></package>`,
    'a.xhtml': `<html><body>${'<p>words</p>'.repeat(50)}</body></html>`,
  });
}

/** A workbook of Excel 97 whose first record says that the others are encrypted, by a method of that time. */
export function lockedXls(): Buffer {
  const record = (type: number, content: number[]) =>
    Buffer.from([type & 255, type >> 8, content.length, 0, ...content]);
  const start = record(0x809, [0, 6, 5, 0, 0, 0, 0xcc, 7, 0, 0, 0, 0, 6, 0, 0, 0]);
  const method = record(0x2f, [1, 0, 1, 0, 1, 0, ...Array<number>(48).fill(7)]);
  return compoundFile({ Workbook: Buffer.concat([start, method, Buffer.alloc(8_000)]) });
}

/** A file of Word 97 whose header says that its text is encrypted. */
export function lockedDoc(file: Buffer): Buffer {
  const locked = Buffer.from(file);
  // Streams begin at sectors, and this mark begins the main one.
  let header = 512;
  while (locked.readUInt16LE(header) !== 0xa5ec) header += 512;
  locked.writeUInt16LE(locked.readUInt16LE(header + 10) | 0x100, header + 10);
  return locked;
}

/** Mail in mail in mail. */
export function nestedMail(depth: number): string {
  let mail = 'From: Ann <ann@example.org>\nMIME-Version: 1.0\nSubject: innermost\n\nwords\n';
  for (let level = 0; level < depth; level += 1) {
    mail = `From: Ann <ann@example.org>\nMIME-Version: 1.0\nSubject: ${level}\nContent-Type: multipart/mixed; boundary="b${level}"\n\n--b${level}\nContent-Type: message/rfc822\n\n${mail}\n--b${level}--\n`;
  }
  return mail;
}

/** A compound file in whose table of sectors each chain leads back to its start. */
export function circularCompoundFile(streams: Record<string, string | Buffer>): Buffer {
  const file = compoundFile(streams);
  const sectorBytes = 2 ** file.readUInt16LE(30);
  const table = (file.readUInt32LE(76) + 1) * sectorBytes;
  for (let sector = 0; sector * 4 < sectorBytes; sector += 1) {
    const next = file.readUInt32LE(table + sector * 4);
    if (next === 0xfffffffe) file.writeUInt32LE(file.readUInt32LE(48), table + sector * 4);
  }
  return file;
}
