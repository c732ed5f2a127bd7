import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { PassThrough } from 'node:stream';
import type { Context } from 'mocha';
import {
  type ConversionProcessLimits,
  defaultConversionProcessLimits,
} from '#src/adapters/converter/conversion-limits.ts';
import { createConverter } from '#src/adapters/converter/converter.ts';
import { renderPdfPageImages } from '#src/adapters/converter/formats/pdf.ts';
import { readPgmImages } from '#src/adapters/converter/ocr/image-pages.ts';
import { createParserSandbox } from '#src/adapters/parser-sandbox.ts';
import type { OcrOptions } from '#src/ports/documents.ts';
import type { Picture } from './document-fixtures.ts';
import { skip } from './skip.ts';

const allPages: OcrOptions = { known: [], sliceMs: 60_000, keep: async () => undefined };
const sandbox = createParserSandbox('auto');
const toolsDir = process.env.TOOLS_DIR ?? '';

type Limits = Partial<ConversionProcessLimits>;

/** For a suite: a real converter over files that its tests write. */
export function useConverter() {
  const folder = join(tmpdir(), `converter-test-${randomUUID()}`);
  before(() => mkdir(folder));
  after(() => rm(folder, { recursive: true, force: true }));

  const build = (limits: Limits = {}) => createConverter({ sandbox, toolsDir, tempDir: folder, limits });

  async function write(fileName: string, content: string | Buffer): Promise<string> {
    const path = join(folder, fileName);
    await writeFile(path, content);
    return path;
  }

  /** Detects the format of a file and converts it, as an ingestion does. Null is without OCR. */
  async function convertPath(path: string, recognition: OcrOptions | null = allPages, limits?: Limits) {
    const converter = build(limits);
    const fileName = basename(path);
    const format = await converter.detect({ path, fileName });
    const { signal } = new AbortController();
    return converter.convert({ orgId: 'any', path, fileName, format, signal, ...(recognition && { recognition }) });
  }

  const convert = async (fileName: string, content: string | Buffer, limits?: Limits) =>
    convertPath(await write(fileName, content), allPages, limits);

  return { folder, converter: build(), write, convert, convertPath };
}

/** The first page of a PDF as an image of 300 dpi, with little of the empty area below the text. */
export async function scanOf(folder: string, path: string): Promise<Picture> {
  const images = new PassThrough();
  const drawing = readPgmImages(images).next();
  const { signal } = new AbortController();
  const place = { path, python: 'python3', toolsDir, workingDirectory: folder };
  const limits = defaultConversionProcessLimits;
  await renderPdfPageImages({ ...place, sandbox, limits, signal }, [0], images);
  const { value: image } = await drawing;
  const [header = '', ...sizes] = /^P5\n(\d+) (\d+)\n255\n/.exec(image?.toString('latin1', 0, 32) ?? '') ?? [];
  const [width = 0, height = 0] = sizes.map(Number);
  const grey: Buffer = image?.subarray(header.length) ?? Buffer.alloc(0);
  const lastRow = Math.ceil(grey.findLastIndex((value) => value < 128) / width);
  const rows = Math.min(height, lastRow + 100);
  return { width, height: rows, grey: grey.subarray(0, rows * width) };
}

/** PDF tests need PDFium, which `npm test` installs; without it they are skipped. */
export function needsPdfium(test: Context): void {
  if (existsSync(join(toolsDir, 'pypdfium2'))) return;
  skip(test, 'no PDFium');
}

/** Real documents are not part of the repository. */
export function realDocuments(test: Context): string {
  const folder = resolve(process.env.DATASETS_DIR ?? '../shared/datasets', 'documents');
  if (!existsSync(folder)) skip(test, 'no data sets');
  return folder;
}
