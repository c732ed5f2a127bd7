import { compoundFile } from '#test/support/compound-file.ts';
import { docxFile, docxParagraph } from '#test/support/document-fixtures.ts';
import { odfFile } from '#test/support/office-fixtures.ts';

const entityXml = (entities: string[], text: string) =>
  `<?xml version="1.0"?><!DOCTYPE l [${entities.join('')}]><l>${text}</l>`;
const entities = Array.from({ length: 9 }, (_, n) => `<!ENTITY l${n + 1} "${`&l${n};`.repeat(10)}">`);

/** Ten to the ninth laughs of ten entities. */
export const laughingXml = entityXml(['<!ENTITY l0 "ha">', ...entities], '&l9;');

/** The file that a reader of XML would show, if it looked at what a document type names. */
export const fetchingXml = entityXml(['<!ENTITY l SYSTEM "file:///etc/passwd">'], '&l;');

export const docxWith = (documentXml: string, encoding: BufferEncoding = 'utf8') =>
  docxFile('', { 'word/document.xml': Buffer.from(documentXml, encoding) });
export const odtWith = (contentXml: string) => odfFile('text', '', { parts: { 'content.xml': contentXml } });

/** A table whose one cell says that it is so many columns wide. */
export function wideTable(columns: number): string {
  const cell = (properties: string) => `<w:tr><w:tc>${properties}${docxParagraph('words')}</w:tc></w:tr>`;
  return `<w:tbl>${cell(`<w:tcPr><w:gridSpan w:val="${columns}"/></w:tcPr>`)}${cell('')}</w:tbl>`;
}

/** Rows and columns that are said to be repeated a thousand million times. */
export function odsOfRepeats(): Buffer {
  const cell =
    '<table:table-cell table:number-columns-repeated="1000000000" office:value-type="string"><text:p>x</text:p></table:table-cell>';
  const row = `<table:table-row table:number-rows-repeated="1000000000">${cell}</table:table-row>`;
  return odfFile('spreadsheet', `<table:table table:name="S">${row}</table:table>`);
}

/** A workbook of Excel 97 whose first record says that the others are encrypted, by a method of that time. */
export function lockedXls(): Buffer {
  const record = (type: number, content: number[]) =>
    Buffer.from([type & 255, type >> 8, content.length, 0, ...content]);
  const start = record(0x809, [0, 6, 5, 0, 0, 0, 0xcc, 7, 0, 0, 0, 0, 6, 0, 0, 0]);
  const method = record(0x2f, [1, 0, 1, 0, 1, 0, ...Array<number>(48).fill(7)]);
  return compoundFile({ Workbook: Buffer.concat([start, method, Buffer.alloc(8_000)]) });
}

/** The offset of the main stream of a file of Word 97: streams begin at sectors, and this mark begins the main one. */
export function mainStreamOf(file: Buffer): number {
  for (let offset = 512; ; offset += 512) if (file.readUInt16LE(offset) === 0xa5ec) return offset;
}

/** A file of Word 97 whose header says that its text is encrypted. */
export function lockedDoc(file: Buffer): Buffer {
  const locked = Buffer.from(file);
  const flags = mainStreamOf(file) + 10;
  locked.writeUInt16LE(locked.readUInt16LE(flags) | 0x100, flags);
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
