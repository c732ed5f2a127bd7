import { PassThrough } from 'node:stream';
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
