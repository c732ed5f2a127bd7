import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { z } from 'zod';
import { appError } from '#src/errors.ts';
import type { OcrLine } from '#src/ports/documents.ts';

/** Confidence (0 to 100) below which Tesseract's text is noise, an unknown script, or a rotated page. */
const minConfidence = 60;
/** In a line of low confidence, only words of at least this confidence and `minWordLength` letters are kept. */
const minWordConfidence = 70;
const minWordLength = 3;
/** In a line of high confidence, words below this confidence are taken for dirt on the scan and dropped. */
const minConfidenceInGoodLine = 10;
/**
 * A line this many times as high as a usual line has a larger font; smaller differences come from the shapes of the
 * letters.
 */
const largerFontRatio = 1.5;
const sizeStep = 1.25;
/** Converts Tesseract's pixels to points (1/72 inch); most scans have about 300 pixels per inch. */
const pointsPerPixel = 72 / 300;
/** EXIF orientations for 90°, 270° and 180°. */
const rotations = [6, 8, 3];

/** Recognizes a page image. Tries other orientations if the text is unreadable and EXIF names no rotation. */
export function recognizePageByOcr(read: RecognizeImage, image: Uint8Array, orientation: number): OcrLine[] {
  let best = read(image, orientation);
  if (orientation === 1 && best.length > 0) {
    for (const rotation of rotations) {
      if (confidenceOf(best.flatMap(({ words }) => words)) >= minConfidence) break;
      const rotated = read(image, rotation);
      if (readableLength(rotated) > readableLength(best)) best = rotated;
    }
  }
  return describeLines(best.map(withoutNoise).filter(({ words }) => /[\p{L}\p{N}].*[\p{L}\p{N}]/u.test(textOf(words))));
}

type Words = TesseractLine['words'];

function textOf(words: Words): string {
  return words.map(({ text }) => text).join(' ');
}

/** Average confidence weighted by letters, so that one certain long word counts more than three doubtful specks. */
function confidenceOf(words: Words): number {
  const length = words.reduce((sum, { text }) => sum + text.length, 0);
  return words.reduce((sum, { text, confidence }) => sum + text.length * confidence, 0) / Math.max(1, length);
}

function readableLength(lines: TesseractLine[]): number {
  const words = lines.flatMap((line) => line.words);
  return words.reduce((sum, { text, confidence }) => sum + (confidence >= minConfidence ? text.length : 0), 0);
}

function withoutNoise(line: TesseractLine): TesseractLine {
  const isSure = confidenceOf(line.words) >= minConfidence;
  const isWord = ({ text, confidence }: Words[number]) =>
    isSure
      ? confidence >= minConfidenceInGoodLine
      : confidence >= minWordConfidence && (text.match(/[\p{L}\p{N}]/gu)?.length ?? 0) >= minWordLength;
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

const require = createRequire(import.meta.url);

type TesseractModule = {
  FS: { writeFile(path: string, content: Uint8Array): void };
  TessBaseAPI: new () => {
    /** Returns 0 on success; `mode` 1 uses only Tesseract's LSTM network. */
    Init(dataFolder: string, languages: string, mode: number): number;
    /**
     * Makes Tesseract read its virtual file `/input` in this EXIF orientation; returns 1 if that is no readable image.
     */
    SetImageFile(orientation: number, radians: number): number;
    Recognize(monitor: null): number;
    GetJSONText(): string;
    Clear(): void;
  };
};

const box = z.object({ x0: z.number(), y0: z.number(), x1: z.number(), y1: z.number() });
const word = z.object({ text: z.string(), confidence: z.number(), bbox: box });
const line = z.object({
  words: z.array(word),
  baseline: box,
  rowAttributes: z.object({ rowHeight: z.number() }),
});
const page = z.object({
  blocks: z
    .array(z.object({ paragraphs: z.array(z.object({ lines: z.array(line) })).nullable() }))
    .nullable()
    .default(null),
});

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

  return (image, orientation) => {
    engine.FS.writeFile('/input', image);
    const isRead = api.SetImageFile(orientation, 0) !== 1;
    // Empties the virtual file to free its memory, because Tesseract has copied the image.
    engine.FS.writeFile('/input', new Uint8Array());
    if (!isRead)
      throw appError('corrupt_document', { detail: 'The image is damaged, or its format is not supported.' });
    api.Recognize(null);
    const { blocks } = page.parse(JSON.parse(api.GetJSONText()));
    api.Clear();
    return (blocks ?? []).flatMap(({ paragraphs }) => paragraphs ?? []).flatMap(({ lines }) => lines);
  };
}
