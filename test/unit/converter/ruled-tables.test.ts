import { expect } from 'chai';
import type { GreyImage } from '#src/adapters/converter/ocr/grey-image.ts';
import { takeOutRuledTables } from '#src/adapters/converter/ocr/ruled-tables.ts';

describe('Ruled tables on scans', () => {
  const [white, black] = [255, 0];
  const blank = (): GreyImage => ({ width: 600, height: 800, pixels: new Uint8Array(600 * 800).fill(white) });
  const fill = ({ width, pixels }: GreyImage, x0: number, y0: number, x1: number, y1: number, grey: number) => {
    for (let y = y0; y < y1; y += 1) pixels.fill(grey, y * width + x0, y * width + x1);
  };
  const drawGrid = (image: GreyImage, columns: number[], rows: number[]) => {
    const [left = 0, right = 0] = [columns[0], columns.at(-1)];
    const [top = 0, bottom = 0] = [rows[0], rows.at(-1)];
    for (const x of columns) fill(image, x, top, x + 3, bottom + 3, black);
    for (const y of rows) fill(image, left, y, right + 3, y + 3, black);
  };
  const isWhite = ({ pixels }: GreyImage) => pixels.every((pixel) => pixel === white);

  it('erases the rules of a table and tells which of its cells hold text', () => {
    const image = blank();
    drawGrid(image, [100, 300, 500], [200, 260, 320]);
    fill(image, 150, 220, 160, 240, black);
    const [table, ...others] = takeOutRuledTables(image);
    expect(others).empty;
    expect(table?.rows.map((row) => row.map(({ hasText }) => hasText))).deep.equal([
      [true, false],
      [false, false],
    ]);
    fill(image, 150, 220, 160, 240, white);
    expect(isWhite(image)).true;
  });

  it('inverts the dark cells of the first row', () => {
    const image = blank();
    drawGrid(image, [100, 300, 500], [200, 260, 320, 380]);
    fill(image, 100, 200, 503, 262, black);
    fill(image, 150, 220, 160, 240, white);
    const [table] = takeOutRuledTables(image);
    expect(table?.rows.map((row) => row.map(({ hasText }) => hasText))[0]).deep.equal([true, false]);
    expect(image.pixels[230 * 600 + 155]).equal(black);
    expect(image.pixels[230 * 600 + 200]).equal(white);
  });

  it('leaves frames, underlines and dark areas as they are', () => {
    const image = blank();
    drawGrid(image, [100, 500], [100, 200]);
    fill(image, 100, 300, 400, 303, black);
    fill(image, 100, 400, 500, 700, black);
    const before = image.pixels.slice();
    expect(takeOutRuledTables(image)).empty;
    expect(image.pixels).deep.equal(before);
  });
});
