import { decodeText } from '../decode-text.ts';
import { renderMarkdownTable } from '../office/blocks.ts';
import type { DocumentParser } from '../parsed-document.ts';

const delimiters = [',', ';', '\t', '|'];
const sampleLength = 16_384;
const sampleLines = 5;

/** Excel takes the delimiter of a CSV file from an optional first line `sep=;`. */
const delimiterLine = /^sep=(.)\n/i;

export const parseCsv: DocumentParser = ({ bytes, encoding }) => {
  const text = decodeText(bytes, encoding).replace(/\r\n?/g, '\n');
  const [line = '', delimiter = likeliestDelimiter(text)] = delimiterLine.exec(text) ?? [];
  const [header = [], ...rows] = readRows(text.slice(line.length), delimiter);
  return { body: renderMarkdownTable(header, rows), title: null };
};

function likeliestDelimiter(text: string): string {
  const bare = text.slice(0, sampleLength).replace(/"[^"]*"/g, '');
  const lines = bare.split('\n', sampleLines).filter((line) => line.trim());
  const fields = delimiters.map((delimiter) => Math.min(...lines.map((line) => line.split(delimiter).length)));
  return delimiters[fields.indexOf(Math.max(...fields))] ?? ',';
}

/** Quoted fields may contain delimiters, newlines and doubled quotes (RFC 4180). Empty rows are left out. */
function readRows(text: string, delimiter: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let field = '';
  let isQuoted = false;
  const endField = () => {
    row.push(field.trim());
    field = '';
  };
  const endRow = () => {
    endField();
    if (row.some((cell) => cell !== '')) rows.push(row);
    row = [];
  };
  for (let index = 0; index < text.length; index += 1) {
    const char = text[index];
    if (isQuoted) {
      if (char !== '"') field += char;
      else if (text[index + 1] === '"') {
        field += '"';
        index += 1;
      } else isQuoted = false;
    } else if (char === '"' && field.trim() === '') isQuoted = true;
    else if (char === delimiter) endField();
    else if (char === '\n') endRow();
    else field += char;
  }
  endRow();
  return rows;
}
