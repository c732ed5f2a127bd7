import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { appError } from '#src/errors.ts';
import { enlargeImage, enlargingFactor } from './enlarge-image.ts';
import { type LeptonicaImage, readGrey, writePgm } from './grey-image.ts';
import { findOpenTables } from './open-tables.ts';
import { readRuledTables, withoutTables, withTables } from './ruled-table-rows.ts';
import { type RuledTable, scaleTable, takeOutRuledTables } from './ruled-tables.ts';
import {
  type Block,
  type Box,
  isSideways,
  isSure,
  type TesseractLine,
  tesseractPage,
  usualHeight,
} from './tesseract-lines.ts';

/** Empty space around a table in pixels, without which Tesseract misreads what touches the edge. */
const tableMargin = 10;

const require = createRequire(import.meta.url);

/** Modes of page segmentation: Tesseract's own layout analysis, one column of lines and table rows, and one text. */
const automaticLayout = 3;
const singleColumn = 4;
const singleBlock = 6;

type TesseractModule = {
  FS: { writeFile(path: string, content: Uint8Array): void };
  getValue(pointer: number, type: 'i32'): number;
  TessBaseAPI: new () => {
    /** Returns 0 on success; `mode` 1 uses only Tesseract's LSTM network. */
    Init(dataFolder: string, languages: string, mode: number): number;
    /**
     * Makes Tesseract read its virtual file `/input` in this EXIF orientation; returns 1 if that is no readable image.
     */
    SetImageFile(orientation: number, radians: number): number;
    GetInputImage(): LeptonicaImage;
    SetVariable(name: string, value: string): boolean;
    SetPageSegMode(mode: number): void;
    /** Limits recognition to a part of the image; coordinates of the result remain those of the image. */
    SetRectangle(left: number, top: number, width: number, height: number): void;
    Recognize(monitor: null): number;
    GetJSONText(): string;
    Clear(): void;
  };
};

export type RecognizeImage = (image: Uint8Array, orientation: number) => TesseractLine[];

/** Rows of 10-point text at 300 dpi have this height in pixels. Enlarging higher ones only makes letters vague. */
const minRowHeight = 40;

function hasLargeLetters(blocks: Block[]): boolean {
  return usualHeight(blocks.flatMap(({ lines }) => lines)) >= minRowHeight;
}

function languageDataPath(language: string): string {
  return require.resolve(`@tesseract.js-data/${language}/4.0.0_best_int/${language}.traineddata.gz`);
}

/**
 * Loads Tesseract and returns a function that recognizes an image. Call once per process: loading takes 0.5 s and 100
 * MB.
 * @throws AppError corrupt_document from the returned function, for an image that cannot be decoded
 */
export async function startTesseract(languages: readonly string[]): Promise<RecognizeImage> {
  // The build of Tesseract with SIMD and LSTM only gives the same result on every machine.
  const load: (options: object) => Promise<TesseractModule> = require('tesseract.js-core/tesseract-core-simd-lstm');
  const quiet = () => undefined;
  const engine = await load({ print: quiet, printErr: quiet });
  for (const language of languages) {
    const data = await promisify(gunzip)(await readFile(languageDataPath(language)));
    engine.FS.writeFile(`/${language}.traineddata`, data);
  }
  const api = new engine.TessBaseAPI();
  if (api.Init('/', languages.join('+'), 1) !== 0)
    throw new Error('Tesseract could not be initialized with its language data.');
  // Sauvola's method decides on black and white by the surroundings of each pixel, so that a shadow hides no text.
  api.SetVariable('thresholding_method', '2');

  const open = (image: Uint8Array, orientation: number) => {
    engine.FS.writeFile('/input', image);
    const isRead = api.SetImageFile(orientation, 0) !== 1;
    // Empties the virtual file to free its memory, because Tesseract has copied the image.
    engine.FS.writeFile('/input', new Uint8Array());
    if (!isRead)
      throw appError('corrupt_document', { detail: 'The image is damaged, or its format is not supported.' });
  };
  const recognize = (layout: number): Block[] => {
    api.SetPageSegMode(layout);
    api.Recognize(null);
    return tesseractPage.parse(JSON.parse(api.GetJSONText())).blocks ?? [];
  };

  const recognizePart = ({ x0, y0, x1, y1 }: Box, layout: number, margin: number): TesseractLine[] => {
    const picture = api.GetInputImage();
    const [left, top] = [Math.max(0, Math.round(x0) - margin), Math.max(0, Math.round(y0) - margin)];
    const right = Math.min(picture.get_w(), Math.round(x1) + margin);
    const bottom = Math.min(picture.get_h(), Math.round(y1) + margin);
    api.SetRectangle(left, top, right - left, bottom - top);
    return recognize(layout).flatMap(({ lines }) => lines);
  };
  const recognizeTables = (blocks: Block[], ruledTables: RuledTable[]): Block[] => {
    const found = blocks.flatMap(({ lines }) => lines);
    if (isSideways(found)) return blocks;
    const readTable = (bbox: Box) => recognizePart(bbox, singleColumn, tableMargin);
    const readCell = (cell: Box) => recognizePart(cell, singleBlock, 0).filter(isSure);
    const tables = readRuledTables(ruledTables, found, readTable, readCell);
    const others = withoutTables(blocks, tables);
    for (const { blocks: columns, bbox } of findOpenTables(others)) {
      const [first, ...rest] = columns;
      if (first) first.lines = readTable(bbox);
      for (const each of rest) each.lines = [];
    }
    return withTables(others, tables);
  };

  return (image, orientation) => {
    open(image, orientation);
    const picture = readGrey(api.GetInputImage(), engine);
    const tables = takeOutRuledTables(picture);
    if (tables.length > 0) open(writePgm(picture), 1);
    let blocks = recognize(automaticLayout);
    const factor = hasLargeLetters(blocks) ? 1 : enlargingFactor(picture);
    if (factor > 1) {
      open(writePgm(enlargeImage(picture, factor)), 1);
      blocks = recognize(automaticLayout);
    }
    const scaled = tables.map((table) => scaleTable(table, factor));
    const lines = recognizeTables(blocks, scaled).flatMap((each) => each.lines);
    api.Clear();
    return lines;
  };
}
