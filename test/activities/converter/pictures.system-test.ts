import { expect } from 'chai';
import sharp from 'sharp';
import type { OcrOptions, OcrPage } from '#src/ports/documents.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { needsPdfium, realDocuments, scanOf, useConverter } from '#test/support/converter-environment.ts';
import { type Picture, pdfFile, pdfOfLines, textLines } from '#test/support/document-fixtures.ts';

describe('OCR', () => {
  const environment = useConverter();
  const blank: Picture = { width: 400, height: 300, grey: Buffer.alloc(400 * 300, 255) };
  let scan: Picture;
  before(async function () {
    needsPdfium(this);
    const lines = ['The harbour master keeps the keys of the lighthouse.', 'Nobody else may open the northern gate.'];
    scan = await scanOf(environment.folder, await environment.write('drawn.pdf', pdfOfLines(...lines)));
  });
  const convert = async (fileName: string, content: Buffer, recognition: OcrOptions | null) =>
    environment.convertPath(await environment.write(fileName, content), recognition);

  it('reads the text of an image, also of a rotated image', async () => {
    const upright = await environment.convert('scan.png', await pngFile(scan));
    expect(upright).include({ sourceFormat: 'image', pageCount: 1, pagesLeft: 0 });
    expect(upright.body).contain('The harbour master keeps the keys of the lighthouse.');
    const turned = await environment.convert('turned.png', await pngFile(turnRight(scan)));
    expect(turned.body).equal(upright.body);
  });

  it('reads each page of a TIFF file', async () => {
    const { body, pageMap } = await environment.convert('fax.tif', tiffFile([scan, blank, scan]));
    expect(body.match(/northern gate/g)).length(2);
    expect(pageMap).length(3);
    expect(body.slice(pageMap?.[2])).match(/^The harbour/);
  });

  it('reads only those pages of a PDF that are pictures', async () => {
    const stamped = [onWholePage(scan), { text: 'Scanned by a program', x: 50, y: 20 }];
    const pdf = pdfFile([textLines('Qwx jvk zzyq, as no engine would read it.'), stamped, []]);
    const { body, pageMap, pageCount } = await environment.convert('mixed.pdf', pdf);
    expect(pageCount).equal(3);
    expect(body.slice(0, pageMap?.[1])).contain('Qwx jvk zzyq, as no engine would read it.');
    expect(body.slice(pageMap?.[1], pageMap?.[2])).contain('Nobody else may open the northern gate.');
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

  it('reads no pictures when its caller cannot store recognized pages', async () => {
    expect(await appErrorCode(convert('a.png', await pngFile(scan), null))).equal('unsupported_format');
    expect(await appErrorCode(convert('a.pdf', pdfFile([[scan]]), null))).equal('unsupported_format');
    const mixed = pdfFile([textLines('words on a page'), [scan]]);
    expect((await convert('b.pdf', mixed, null)).body).equal('words on a page');
  });

  it('rejects damaged pictures, pictures without words, and pictures with too many pages or pixels', async () => {
    const pictures: [string, Buffer, string, object?][] = [
      ['a.png', await pngFile(blank), 'empty_document'],
      ['b.pdf', pdfFile([[blank]]), 'empty_document'],
      ['c.pdf', pdfFile([[blank], [blank]]), 'too_large', { ocrPages: 1 }],
      ['d.tif', tiffFile([blank, blank]), 'too_large', { ocrPages: 1 }],
      ['e.png', await pngFile(blank), 'too_large', { imagePixels: 100_000 }],
      ['f.tif', tiffFile([blank], 7), 'unsupported_format'],
      ['g.png', (await pngFile(scan)).subarray(0, 2_000), 'corrupt_document'],
      ['h.png', await pngFile(scan), 'conversion_timeout', { wallMs: 20 }],
    ];
    for (const [name, content, code, limits] of pictures) {
      expect(await appErrorCode(environment.convert(name, content, limits)), name).equal(code);
    }
  });

  it('recognizes the sentences of real scanned documents', async function () {
    const folder = realDocuments(this);
    const { body } = await environment.convertPath(`${folder}/test_llm.jpg`);
    expect(body).contain('5bda1dd6');
    const first: string[] = [];
    const keep = async ({ lines }: OcrPage) => void first.push(...lines.map(([text]) => text));
    const path = `${folder}/MEDRPT-2024-PAT-3847_medical_report_scan.pdf`;
    await environment.convertPath(path, { known: [], sliceMs: 0, keep });
    expect(first).include.members([
      'Oxygen Saturation 97% 95-100% NORMAL',
      '6 weeks, rated 6-7/10 in severity. Associated symptoms include occasional dizziness,',
      '2. Metformin 500mg - twice daily for diabetes',
    ]);
  });
});

/** Pads an image to the height of a page. */
function onWholePage({ width, height, grey }: Picture): Picture {
  const rows = Math.round((width * 4) / 3);
  return { width, height: rows, grey: Buffer.concat([grey, Buffer.alloc((rows - height) * width, 255)]) };
}

function turnRight({ width, height, grey }: Picture): Picture {
  const turned = Buffer.alloc(grey.length);
  grey.forEach((value, at) => {
    const [x, y] = [at % width, Math.floor(at / width)];
    turned[x * height + (height - 1 - y)] = value;
  });
  return { width: height, height: width, grey: turned };
}

const pngFile = ({ width, height, grey }: Picture): Promise<Buffer> =>
  sharp(grey, { raw: { width, height, channels: 1 } })
    .png()
    .toBuffer();

/** A TIFF with a page for each picture; `compression` is the TIFF tag value, 1 for none. */
function tiffFile(pictures: Picture[], compression = 1): Buffer {
  const parts: Buffer[] = [Buffer.from('II*\0\0\0\0\0', 'latin1')];
  let length = 8;
  let pointer = { part: parts[0] ?? Buffer.alloc(8), at: 4 };
  for (const { width, height, grey } of pictures) {
    const tags = { 256: width, 257: height, 258: 8, 259: compression, 262: 1 };
    const strip = { 273: length, 277: 1, 278: height, 279: grey.length };
    const entries = Object.entries({ ...tags, ...strip });
    const directory = Buffer.alloc(2 + entries.length * 12 + 4);
    directory.writeUInt16LE(entries.length);
    for (const [index, [tag, value]] of entries.entries()) {
      const at = 2 + index * 12;
      directory.writeUInt16LE(Number(tag), at);
      directory.writeUInt16LE(4, at + 2);
      directory.writeUInt32LE(1, at + 4);
      directory.writeUInt32LE(value, at + 8);
    }
    const padding = Buffer.alloc(grey.length % 2);
    pointer.part.writeUInt32LE(length + grey.length + padding.length, pointer.at);
    pointer = { part: directory, at: directory.length - 4 };
    parts.push(grey, padding, directory);
    length += grey.length + padding.length + directory.length;
  }
  return Buffer.concat(parts);
}
