import { PassThrough } from 'node:stream';
import { crc32, deflateSync } from 'node:zlib';
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

export function pngFile({ width, height, grey }: Picture): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 0, 0, 0, 0], 8);
  const rows = Array.from({ length: height }, (_, row) =>
    Buffer.concat([Buffer.alloc(1), grey.subarray(row * width, (row + 1) * width)]),
  );
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    pngChunk('IHDR', header),
    pngChunk('IDAT', deflateSync(Buffer.concat(rows))),
    pngChunk('IEND', Buffer.alloc(0)),
  ]);
}

function pngChunk(name: string, content: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(name), content]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(content.length);
  sum.writeUInt32BE(crc32(named));
  return Buffer.concat([length, named, sum]);
}

/** A TIFF with a page for each picture; `compression` is the TIFF tag value, 1 for none. */
export function tiffFile(pictures: Picture[], compression = 1): Buffer {
  const parts: Buffer[] = [Buffer.from('II*\0\0\0\0\0', 'latin1')];
  let length = 8;
  let pointer: { part: Buffer; at: number } = { part: parts[0] ?? Buffer.alloc(8), at: 4 };
  for (const { width, height, grey } of pictures) {
    const tags: [number, number][] = [
      ...([
        [256, width],
        [257, height],
        [258, 8],
        [259, compression],
        [262, 1],
      ] satisfies [number, number][]),
      ...([
        [273, length],
        [277, 1],
        [278, height],
        [279, grey.length],
      ] satisfies [number, number][]),
    ];
    const directory = Buffer.alloc(2 + tags.length * 12 + 4);
    directory.writeUInt16LE(tags.length);
    tags.forEach(([tag, value], index) => {
      const at = 2 + index * 12;
      directory.writeUInt16LE(tag, at);
      directory.writeUInt16LE(4, at + 2);
      directory.writeUInt32LE(1, at + 4);
      directory.writeUInt32LE(value, at + 8);
    });
    const padding = Buffer.alloc(grey.length % 2);
    pointer.part.writeUInt32LE(length + grey.length + padding.length, pointer.at);
    pointer = { part: directory, at: directory.length - 4 };
    parts.push(grey, padding, directory);
    length += grey.length + padding.length + directory.length;
  }
  return Buffer.concat(parts);
}
