import { PassThrough } from 'node:stream';
import sharp from 'sharp';
import { defaultConversionProcessLimits } from '#src/adapters/converter/conversion-limits.ts';
import { renderPdfPageImages } from '#src/adapters/converter/formats/pdf.ts';
import { readPgmImages } from '#src/adapters/converter/ocr/image-pages.ts';
import { createParserSandbox } from '#src/adapters/parser-sandbox.ts';
import { type PdfText, type Picture, pdfFile } from './document-fixtures.ts';

const margin = 100;

/** The first page of a PDF as an image of 300 dpi, without the empty area below the text. */
export async function scanOf(folder: string, path: string): Promise<Picture> {
  const images = new PassThrough();
  const drawing = readPgmImages(images).next();
  await renderPdfPageImages(
    {
      sandbox: createParserSandbox('auto'),
      ...{ path, python: 'python3', toolsDir: process.env.TOOLS_DIR ?? '', workingDirectory: folder },
      ...{ limits: defaultConversionProcessLimits, signal: new AbortController().signal, onProgress: () => undefined },
    },
    [0],
    images,
  );
  const { value: image } = await drawing;
  if (!image) throw new Error('The page was not drawn.');
  const [header = '', width = 0, height = 0] = /^P5\n(\d+) (\d+)\n255\n/.exec(image.toString('latin1', 0, 32)) ?? [];
  const grey = image.subarray(header.length);
  const lastInk = grey.findLastIndex((value: number) => value < 128);
  const rows = Math.min(Number(height), Math.ceil(lastInk / Number(width)) + margin);
  return { width: Number(width), height: rows, grey: grey.subarray(0, rows * Number(width)) };
}

/** Lines below each other, as texts of a page. */
export function textLines(...lines: string[]): PdfText[] {
  return lines.map((text, index) => ({ text, x: 50, y: 750 - index * 20, size: 12 }));
}

export function pdfOfLines(...lines: string[]): Buffer {
  return pdfFile([textLines(...lines)]);
}

/** Pads an image to the height of a page. */
export function onWholePage({ width, height, grey }: Picture): Picture {
  const rows = Math.round((width * 4) / 3);
  return { width, height: rows, grey: Buffer.concat([grey, Buffer.alloc((rows - height) * width, 255)]) };
}

export function turnRight({ width, height, grey }: Picture): Picture {
  const turned = Buffer.alloc(grey.length);
  grey.forEach((value, at) => {
    const [x, y] = [at % width, Math.floor(at / width)];
    turned[x * height + (height - 1 - y)] = value;
  });
  return { width: height, height: width, grey: turned };
}

export const pngFile = ({ width, height, grey }: Picture): Promise<Buffer> =>
  sharp(grey, { raw: { width, height, channels: 1 } })
    .png()
    .toBuffer();

/** A TIFF with a page for each picture; `compression` is the TIFF tag value, 1 for none. */
export function tiffFile(pictures: Picture[], compression = 1): Buffer {
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
