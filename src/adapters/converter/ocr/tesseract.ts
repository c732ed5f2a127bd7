import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { z } from 'zod';
import { appError } from '#src/errors.ts';
import type { OcrLine } from '#src/ports/documents.ts';
import { enlargeImage, type LeptonicaImage } from './enlarge-image.ts';

/** Confidence (0 to 100) below which Tesseract's text is noise, an unknown script, or a rotated page. */
const minConfidence = 60;
/** In a line of low confidence, only words of at least this confidence and `minWordLength` letters are kept. */
const minWordConfidence = 70;
const minWordLength = 3;
/** In a line of high confidence, words below this confidence are taken for dirt on the scan and dropped. */
const minConfidenceInGoodLine = 10;
/** Lines of low confidence with fewer letters in total are specks or a small drawing, not text that cannot be read. */
const minUnreadableLetters = 100;
/** On a page that is mostly unreadable, lines of lower confidence are noise that looks like words by chance. */
const minConfidenceAmongNoise = 80;
/**
 * A line this many times as high as a usual line has a larger font; smaller differences come from the shapes of the
 * letters.
 */
const largerFontRatio = 1.5;
const sizeStep = 1.25;
/** Converts Tesseract's pixels to points (1/72 inch); most scans have about 300 pixels per inch. */
const pointsPerPixel = 72 / 300;
/** EXIF orientations whose display needs a rotation by 90°, 180° or 270°. */
const rotatedBy = { 90: 6, 180: 3, 270: 8 } as const;

/**
 * Recognizes a page image, upright unless EXIF names a rotation. Of a page whose text is mostly unreadable only the
 * readable lines are kept, if any, and `isUnreadable` is true.
 */
export function recognizePageByOcr(
  read: RecognizeImage,
  image: Uint8Array,
  orientation: number,
): { lines: OcrLine[]; isUnreadable: boolean } {
  const found = orientation === 1 ? readUpright(read, image) : read(image, orientation);
  const sure = found.filter(isSure);
  const unsureLetters = lengthOf(found) - lengthOf(sure);
  const isUnreadable = unsureLetters >= minUnreadableLetters && unsureLetters > lengthOf(sure);
  const isCertain = ({ words }: TesseractLine) => confidenceOf(words) >= minConfidenceAmongNoise;
  const kept = (isUnreadable ? sure.filter(isCertain) : found).map(withoutNoise);
  return { lines: describeLines(kept.filter(({ words }) => hasTwoLetters.test(textOf(words)))), isUnreadable };
}

const hasTwoLetters = /[\p{L}\p{N}].*[\p{L}\p{N}]/u;

/**
 * Reads a page at most twice. Tesseract's layout analysis finds lines that run up or down the page and reads them as if
 * they ran up; it does not find out whether text is upside down.
 */
function readUpright(read: RecognizeImage, image: Uint8Array): TesseractLine[] {
  const found = read(image, 1);
  const isReadable = confidenceOf(found.flatMap(({ words }) => words)) >= minConfidence;
  if (isSideways(found)) return read(image, isReadable ? rotatedBy[270] : rotatedBy[90]);
  if (isReadable || found.length === 0) return found;
  const turned = read(image, rotatedBy[180]);
  return lengthOf(turned.filter(isSure)) > lengthOf(found.filter(isSure)) ? turned : found;
}

/** Ignores lines of one or two characters, which are higher than wide on an upright page, too. */
function isSideways(lines: TesseractLine[]): boolean {
  const long = lines.filter(({ words }) => textOf(words).length > 2);
  return lengthOf(long.filter(({ bbox }) => bbox.y1 - bbox.y0 > bbox.x1 - bbox.x0)) > lengthOf(long) / 2;
}

/** Removes the dots between a heading and its page number, which lower the confidence of the word beside them. */
function withoutLeader<Word extends { text: string; confidence: number }>(word: Word): Word {
  if (!leader.test(word.text)) return word;
  return { ...word, text: word.text.replace(leader, ''), confidence: Math.max(word.confidence, minConfidence) };
}

const leader = /\.{3,}.*$/;

type Words = TesseractLine['words'];

function textOf(words: Words): string {
  return words.map(({ text }) => text).join(' ');
}

/** Average confidence weighted by letters, so that one certain long word counts more than three doubtful specks. */
function confidenceOf(words: Words): number {
  const length = words.reduce((sum, { text }) => sum + text.length, 0);
  return words.reduce((sum, { text, confidence }) => sum + text.length * confidence, 0) / Math.max(1, length);
}

function isSure({ words }: TesseractLine): boolean {
  return confidenceOf(words) >= minConfidence;
}

/** Number of characters without spaces. */
function lengthOf(lines: TesseractLine[]): number {
  return lines.reduce((sum, { words }) => sum + words.reduce((length, { text }) => length + text.length, 0), 0);
}

function withoutNoise(line: TesseractLine): TesseractLine {
  const isWord = isSure(line)
    ? ({ text, confidence }: Words[number]) => text !== '' && confidence >= minConfidenceInGoodLine
    : ({ text, confidence }: Words[number]) =>
        confidence >= minWordConfidence && (text.match(/[\p{L}\p{N}]/gu)?.length ?? 0) >= minWordLength;
  return { ...line, words: line.words.filter(isWord) };
}

function describeLines(lines: TesseractLine[]): OcrLine[] {
  const usual = usualHeight(lines);
  return lines.map(({ words, baseline, rowAttributes }): OcrLine => {
    const left = Math.min(...words.map(({ bbox }) => bbox.x0));
    const right = Math.max(...words.map(({ bbox }) => bbox.x1));
    const gaps = words.slice(1).map(({ bbox }, index) => bbox.x0 - (words[index]?.bbox.x1 ?? bbox.x0));
    const ratio = rowAttributes.rowHeight / usual;
    const isLarger = ratio >= largerFontRatio && confidenceOf(words) > minWordConfidence;
    const size = isLarger ? usual * sizeStep ** Math.round(Math.log(ratio) / Math.log(sizeStep)) : usual;
    const [x0, x1, up, height, gap] = [left, right, -baseline.y0, size, Math.max(0, ...gaps)].map(toPoints);
    return [textOf(words), x0 ?? 0, x1 ?? 0, up ?? 0, height ?? 0, false, gap ?? 0];
  });
}

function toPoints(pixels: number): number {
  return Math.round(pixels * pointsPerPixel * 10) / 10;
}

function usualHeight(lines: TesseractLine[]): number {
  const heights = lines.flatMap(({ words, rowAttributes }) =>
    Array(textOf(words).length).fill(rowAttributes.rowHeight),
  );
  heights.sort((a, b) => a - b);
  return heights[Math.floor(heights.length / 2)] ?? 1;
}

/** A cell of a table has at most this many characters; a line of a column of text has more. */
const cellLength = 24;
/** Shares of the lines beside others that are short, and that are numbers, in a table without rules. */
const minCells = 0.9;
const minNumbers = 0.3;
/** Rows of a table without numbers are at least this many times as far apart as they are high. */
const minRowDistance = 1.6;
/** Empty space around a table in pixels, without which Tesseract misreads what touches the edge. */
const tableMargin = 10;

/** Groups the blocks of a page that stand side by side, and returns for each group its blocks and what it covers. */
function findBands(blocks: Block[]): { blocks: Block[]; bbox: Box }[] {
  let bands: { blocks: Block[]; bbox: Box }[] = [];
  for (const block of blocks.filter(({ lines }) => lines.length > 0)) {
    const isBeside = ({ bbox }: { bbox: Box }) => bbox.y0 < block.bbox.y1 && bbox.y1 > block.bbox.y0;
    const beside = bands.filter(isBeside);
    const all = [...beside.flatMap((band) => band.blocks), block];
    bands = [...bands.filter((band) => !isBeside(band)), { blocks: all, bbox: surround(all.map(({ bbox }) => bbox)) }];
  }
  return bands;
}

function surround(boxes: Box[]): Box {
  const least = (side: 'x0' | 'y0') => Math.min(...boxes.map((each) => each[side]));
  const most = (side: 'x1' | 'y1') => Math.max(...boxes.map((each) => each[side]));
  return { x0: least('x0'), y0: least('y0'), x1: most('x1'), y1: most('y1') };
}

/** Whether blocks side by side are a table without rules, which Tesseract takes for columns of text. */
function isOpenTable({ blocks }: { blocks: Block[] }): boolean {
  const [left, ...others] = [...blocks].sort((a, b) => a.bbox.x0 - b.bbox.x0);
  const cells = others.filter(({ bbox }) => left && bbox.x0 > left.bbox.x1).flatMap(({ lines }) => lines);
  const texts = cells.map(({ words }) => textOf(words));
  const share = (wanted: (text: string) => boolean) => texts.filter(wanted).length / Math.max(1, texts.length);
  if (share((text) => text.length <= cellLength) < minCells) return false;
  const steps = others
    .flatMap(({ lines }) => lines.slice(1).map(({ bbox }, index) => bbox.y0 - (lines[index]?.bbox.y0 ?? bbox.y0)))
    .sort((a, b) => a - b);
  if (steps.length === 0) return false;
  const distance = (steps[Math.floor(steps.length / 2)] ?? 0) / usualHeight(cells);
  return share(isNumber) >= minNumbers || distance >= minRowDistance;
}

function isNumber(text: string): boolean {
  return (text.match(/\d/g)?.length ?? 0) > (text.match(/\p{L}/gu)?.length ?? 0);
}

const require = createRequire(import.meta.url);

/** Modes of page segmentation: Tesseract's own layout analysis, and one column of lines and table rows. */
const automaticLayout = 3;
const singleColumn = 4;

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

const box = z.object({ x0: z.number(), y0: z.number(), x1: z.number(), y1: z.number() });
const word = z.object({ text: z.string(), confidence: z.number(), bbox: box }).transform(withoutLeader);
const line = z.object({
  words: z.array(word),
  bbox: box,
  baseline: box,
  rowAttributes: z.object({ rowHeight: z.number() }),
});
const block = z
  .object({ bbox: box, paragraphs: z.array(z.object({ lines: z.array(line) })).nullable() })
  .transform(({ bbox, paragraphs }) => ({ bbox, lines: (paragraphs ?? []).flatMap(({ lines }) => lines) }));
const page = z.object({ blocks: z.array(block).nullable().default(null) });

type Box = z.infer<typeof box>;
type Block = z.infer<typeof block>;
type TesseractLine = z.infer<typeof line>;

type RecognizeImage = (image: Uint8Array, orientation: number) => TesseractLine[];

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
    return page.parse(JSON.parse(api.GetJSONText())).blocks ?? [];
  };

  return (image, orientation) => {
    open(image, orientation);
    const larger = enlargeImage(api.GetInputImage(), engine);
    if (larger) open(larger, 1);
    const blocks = recognize(automaticLayout);
    const tables = isSideways(blocks.flatMap(({ lines }) => lines)) ? [] : findBands(blocks).filter(isOpenTable);
    for (const { blocks: columns, bbox } of tables) {
      const picture = api.GetInputImage();
      const [left, top] = [Math.max(0, bbox.x0 - tableMargin), Math.max(0, bbox.y0 - tableMargin)];
      const right = Math.min(picture.get_w(), bbox.x1 + tableMargin);
      const bottom = Math.min(picture.get_h(), bbox.y1 + tableMargin);
      api.SetRectangle(left, top, right - left, bottom - top);
      const [first, ...others] = columns;
      if (first) first.lines = recognize(singleColumn).flatMap(({ lines }) => lines);
      for (const other of others) other.lines = [];
    }
    api.Clear();
    return blocks.flatMap(({ lines }) => lines);
  };
}
