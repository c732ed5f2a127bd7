import { expect } from 'chai';
import sharp from 'sharp';
import type { OcrOptions, OcrPage } from '#src/ports/documents.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { needsPdfium, scanOf, useConverter } from '#test/support/converter-environment.ts';
import {
  type PdfText,
  type Picture,
  pdfFile,
  pdfOfLines,
  textLines,
  zipFile,
} from '#test/support/document-fixtures.ts';
import { readsUnusualFiles } from '#test/support/unusual-files.ts';

describe('OCR, on unusual scans,', () => {
  readsUnusualFiles(({ name }) => name.startsWith('scan-'));
});

describe('OCR', () => {
  const environment = useConverter();
  const blank: Picture = { width: 400, height: 300, grey: Buffer.alloc(400 * 300, 255) };
  let scan: Picture;
  before(async function () {
    needsPdfium(this);
    const lines = ['The harbour master keeps the keys of the lighthouse.', 'Nobody else may open the northern gate.'];
    scan = await scanOf(environment.folder, await environment.write('drawn.pdf', pdfOfLines(...lines)));
  });
  const picturesOf = async (...texts: PdfText[]) =>
    scanOf(environment.folder, await environment.write('drawn.pdf', pdfFile([texts])));
  const convert = async (fileName: string, content: Buffer, recognition: OcrOptions | null) =>
    environment.convertPath(await environment.write(fileName, content), recognition);

  it('reads the text of an image, also of a rotated image', async () => {
    const upright = await environment.convert('scan.png', await pngFile(scan));
    expect(upright).include({ sourceFormat: 'image', pageCount: 1, pagesLeft: 0 });
    expect(upright.body).contain('The harbour master keeps the keys of the lighthouse.');
    for (const degrees of [90, 180, 270]) {
      const turned = await environment.convert('turned.png', await raw(scan).rotate(degrees).png().toBuffer());
      expect(turned.body, `${degrees}`).equal(upright.body);
    }
  });

  it('reads one column after the other, a table row by row, and a page of 75 dpi', async () => {
    const columns = await picturesOf(...textAt(50, ...leftColumn), ...textAt(320, ...rightColumn));
    const wordsOf = (body: string) => body.match(/\w+/g);
    const flowing = wordsOf([...leftColumn, ...rightColumn].join(' '));
    expect(wordsOf((await environment.convert('columns.png', await pngFile(columns))).body)).eql(flowing);
    const small = raw(columns).resize({ width: Math.round(columns.width / 4) });
    expect(wordsOf((await environment.convert('small.png', await small.png().toBuffer())).body)).eql(flowing);
    const [goods, amounts, prices] = [
      textAt(50, ...cells.goods),
      textAt(250, ...cells.amounts),
      textAt(400, ...cells.prices),
    ];
    const table = await environment.convert(
      'table.png',
      await pngFile(await picturesOf(...goods, ...amounts, ...prices)),
    );
    expect(table.body).equal(
      cells.goods.map((name, row) => `${name} ${cells.amounts[row]} ${cells.prices[row]}`).join('\n'),
    );
  });

  it('says of a page whose letters form no words that it could not be read', async () => {
    const page = await picturesOf(...textAt(50, ...leftColumn, ...rightColumn));
    const mirrored = { ...page, grey: await raw(page).flop().toColourspace('b-w').raw().toBuffer() };
    const { body, pageMap } = await environment.convert('mirrored.pdf', pdfFile([[mirrored], [scan]]));
    expect(body.slice(0, pageMap?.[1])).match(/^\(Page number 1 could not be read: [^\n]+\)\n\n$/);
    expect(body.slice(pageMap?.[1])).match(/^The harbour master/);
    expect(await appErrorCode(environment.convert('mirrored.png', await pngFile(mirrored)))).equal('empty_document');
  });

  it('reads each page of a TIFF file, also compressed as JPEG, and an AVIF picture', async () => {
    for (const compression of ['none', 'jpeg', 'ccittfax4'] as const) {
      const { body, pageMap } = await environment.convert('fax.tif', await tiffFile(scan, 2, compression));
      expect(body.match(/northern gate/g), compression).length(2);
      expect(pageMap).length(2);
      expect(body.slice(pageMap?.[1])).match(/^The harbour/);
    }
    const picture = await raw(scan).avif().toBuffer();
    expect((await environment.convert('scan.avif', picture)).body).contain('northern gate');
  });

  it('reads only those pages of a PDF that are pictures', async () => {
    const wholePage = { ...scan, height: Math.round((scan.width * 4) / 3) };
    const padding = Buffer.alloc((wholePage.height - scan.height) * scan.width, 255);
    const picture = { ...wholePage, grey: Buffer.concat([scan.grey, padding]) };
    const stamped = [picture, { text: 'Scanned by a program', x: 50, y: 20 }];
    const pdf = pdfFile([textLines('Qwx jvk zzyq, as no engine would read it.'), stamped, []]);
    const { body, pageMap, pageCount } = await environment.convert('mixed.pdf', pdf);
    expect(pageCount).equal(3);
    expect(body.slice(0, pageMap?.[1])).contain('Qwx jvk zzyq, as no engine would read it.');
    expect(body.slice(pageMap?.[1], pageMap?.[2])).match(/^Scanned by a program\n.*open the northern gate\.$/s);
  });

  it('continues after the pages that an earlier call has read, and reads no page twice', async () => {
    const kept: OcrPage[] = [];
    for (const left of [1, 0]) {
      const recognition = { known: [...kept], sliceMs: 0, keep: async (page: OcrPage) => void kept.push(page) };
      const { body, pagesLeft } = await convert('scan.pdf', pdfFile([[blank], [scan]]), recognition);
      expect(pagesLeft).equal(left);
      if (left === 0) expect(body).contain('lighthouse');
    }
    expect(kept.map(({ pageIndex }) => pageIndex)).eql([0, 1]);
  });

  it('reads no pictures and no archives when its caller cannot store recognized pages', async () => {
    expect(await appErrorCode(convert('a.png', await pngFile(scan), null))).equal('unsupported_format');
    expect(await appErrorCode(convert('a.pdf', pdfFile([[scan]]), null))).equal('unsupported_format');
    expect(await appErrorCode(convert('a.zip', zipFile({ 'a.txt': 'x' }), null))).equal('unsupported_format');
    const mixed = pdfFile([textLines('words on a page'), [scan]]);
    expect((await convert('b.pdf', mixed, null)).body).equal('words on a page');
  });

  it('rejects damaged pictures, pictures without words, and pictures with too many pages or pixels', async () => {
    const pictures: [string, Buffer, string, object?][] = [
      ['a.png', await pngFile(blank), 'empty_document'],
      ['b.pdf', pdfFile([[blank]]), 'empty_document'],
      ['c.pdf', pdfFile([[blank], [blank]]), 'too_large', { ocrPages: 1 }],
      ['d.tif', await tiffFile(blank, 2, 'none'), 'too_large', { ocrPages: 1 }],
      ['e.png', await pngFile(blank), 'too_large', { imagePixels: 100_000 }],
      ['f.tif', (await tiffFile(scan, 1, 'jpeg')).subarray(0, 20_000), 'corrupt_document'],
      ['f.avif', await raw(blank).avif().toBuffer(), 'too_large', { imagePixels: 100_000 }],
      ['g.png', (await pngFile(scan)).subarray(0, 2_000), 'corrupt_document'],
      ['h.png', await pngFile(scan), 'conversion_timeout', { wallMs: 20 }],
    ];
    for (const [name, content, code, limits] of pictures) {
      expect(await appErrorCode(environment.convert(name, content, limits)), name).equal(code);
    }
  });
});

const leftColumn = `The council met on the first Monday of March to
hear what the engineers had found under the old
bridge. Two of its five pillars had moved since
the flood, and the third one had lost its footing.
In the spring the river had carried away the bank
on which the western ramp was built, and the road
had sunk by the breadth of a hand. Carts of more than
two tons were sent around by the ford, which could
be passed in dry weather only. The merchants of
the market had complained about this every month.
A letter of theirs, signed by forty families, was
read aloud before the engineers began to speak.`.split('\n');
const rightColumn = `Nobody on the council wished to close the road
before the summer, when the ferry is full. They
asked the engineers for a temporary bridge of
steel, which the army could lend to the town. It
would rest on boats, so that floods could lift it
without harm, and it could be opened for barges.
The treasurer had found the means to pay for it
in the harbour fund. The vote was unanimous, and
work was to begin in the second week of April. A
committee of three was chosen to watch over the
expenses and to report on them at each meeting.
The meeting was closed at ten in the evening.`.split('\n');
const cells = {
  goods: ['Article', 'Rope of hemp', 'Lantern', 'Anchor chain', 'Sailcloth', 'Copper nails'],
  amounts: ['Amount', '120', '16', '48', '205', '3,400'],
  prices: ['Price', '84.12', '59.09', '27.70', '17.88', '36.42'],
};

const textAt = (x: number, ...lines: string[]) => lines.map((text, row): PdfText => ({ text, x, y: 700 - row * 12 }));

const raw = ({ width, height, grey }: Picture) => sharp(grey, { raw: { width, height, channels: 1 } });

const pngFile = (picture: Picture): Promise<Buffer> => raw(picture).png().toBuffer();

/** A TIFF with so many pages of this picture. */
function tiffFile(
  { width, height, grey }: Picture,
  pages: number,
  compression: 'none' | 'jpeg' | 'ccittfax4',
): Promise<Buffer> {
  const all = Buffer.concat(Array.from({ length: pages }, () => grey));
  const size = { width, height: height * pages, pageHeight: height, channels: 1 } as const;
  return sharp(all, { raw: size })
    .toColourspace('b-w')
    .tiff({ compression, ...(compression === 'ccittfax4' && { bitdepth: 1 }) })
    .toBuffer();
}
