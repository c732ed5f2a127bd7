import { expect } from 'chai';
import { readRuledTables } from '#src/adapters/converter/ocr/ruled-table-rows.ts';
import type { RuledTable } from '#src/adapters/converter/ocr/ruled-tables.ts';
import { type Box, type TesseractLine, textOf } from '#src/adapters/converter/ocr/tesseract-lines.ts';

describe('Rows of ruled tables', () => {
  const [width, height] = [100, 20];
  const boxAt = (row: number, column: number): Box => ({
    ...{ x0: column * width, x1: (column + 1) * width },
    ...{ y0: row * height, y1: (row + 1) * height },
  });
  const table = (rows: number, columns: number): RuledTable => ({
    bbox: { x0: 0, y0: 0, x1: columns * width, y1: rows * height },
    rows: Array.from({ length: rows }, (_, row) =>
      Array.from({ length: columns }, (_, column) => ({ ...boxAt(row, column), hasText: true })),
    ),
  });
  const line = (...words: { text: string; bbox: Box }[]): TesseractLine => ({
    words: words.map((word) => ({ ...word, confidence: 90 })),
    ...{ bbox: words[0]?.bbox ?? boxAt(0, 0), baseline: boxAt(0, 0), rowAttributes: { rowHeight: height } },
  });
  const at = (row: number, column: number, text: string) => ({ text, bbox: boxAt(row, column) });

  it('puts the words of each cell together, of the table, else of the page, else of the cell alone', () => {
    const ofTable = [line(at(0, 0, 'Old'), at(0, 1, '31')), line(at(0, 0, 'basin'))];
    const ofPage = [line(at(0, 0, 'ignored'), at(1, 0, 'Pier'))];
    const [block] = readRuledTables(
      [table(2, 2)],
      ofPage,
      () => ofTable,
      (cell) => [line({ text: 'alone', bbox: cell })],
    );
    expect(block?.lines.map(({ words }) => textOf(words))).deep.equal(['Old basin 31', 'Pier alone']);
  });

  it('reads no more than 200 cells of a page alone', () => {
    let read = 0;
    readRuledTables(
      [table(20, 15), table(20, 15)],
      [],
      () => [],
      () => {
        read += 1;
        return [];
      },
    );
    expect(read).equal(200);
  });
});
