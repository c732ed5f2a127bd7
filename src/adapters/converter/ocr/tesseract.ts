import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { z } from 'zod';
import { appError } from '#src/errors.ts';
import type { RecognizedLine } from '#src/ports/documents.ts';

/** Below this the engine has seen noise, a script that it does not know, or a page that lies on its side. */
const sureConfidence = 60;
/** Words of a line in doubt stay when they are surer than this and long enough not to be a stroke or two. */
const sureWord = 70;
const sureWordLength = 3;
/** Words of a good line below this are spots beside it. */
const leastConfidence = 10;
/** Heights of lines differ by the letters that they happen to hold; from this ratio on they differ by their size. */
const largerRatio = 1.5;
const sizeStep = 1.25;
/** Places are told in points, and most scans have about this many pixels an inch. */
const pointsPerPixel = 72 / 300;
/** Turned to the right, to the left, and upside down, as EXIF counts them. */
const turns = [6, 8, 3];

/**
 * The lines of a picture of a page as a PDF would give them. One that cannot be read as it lies is tried in the other
 * directions, unless the camera has said which is up.
 */
export function recognizePage(read: ReadImage, image: Uint8Array, orientation: number): RecognizedLine[] {
  let best = read(image, orientation);
  if (orientation === 1 && best.length > 0) {
    for (const turn of turns) {
      if (confidenceOf(best.flatMap(({ words }) => words)) >= sureConfidence) break;
      const turned = read(image, turn);
      if (readableLength(turned) > readableLength(best)) best = turned;
    }
  }
  return describeLines(best.map(withoutNoise).filter(({ words }) => /[\p{L}\p{N}].*[\p{L}\p{N}]/u.test(textOf(words))));
}

type Words = EngineLine['words'];

function textOf(words: Words): string {
  return words.map(({ text }) => text).join(' ');
}

/** By letters: one long word that is certain says more than three specks that are not. */
function confidenceOf(words: Words): number {
  const length = words.reduce((sum, { text }) => sum + text.length, 0);
  return words.reduce((sum, { text, confidence }) => sum + text.length * confidence, 0) / Math.max(1, length);
}

function readableLength(lines: EngineLine[]): number {
  const words = lines.flatMap((line) => line.words);
  return words.reduce((sum, { text, confidence }) => sum + (confidence >= sureConfidence ? text.length : 0), 0);
}

function withoutNoise(line: EngineLine): EngineLine {
  const isSure = confidenceOf(line.words) >= sureConfidence;
  const isWord = ({ text, confidence }: Words[number]) =>
    isSure
      ? confidence >= leastConfidence
      : confidence >= sureWord && (text.match(/[\p{L}\p{N}]/gu)?.length ?? 0) >= sureWordLength;
  return { ...line, words: line.words.filter(isWord) };
}

function describeLines(lines: EngineLine[]): RecognizedLine[] {
  const usual = usualHeight(lines);
  return lines.map(({ words, baseline, rowAttributes }): RecognizedLine => {
    const left = Math.min(...words.map(({ bbox }) => bbox.x0));
    const right = Math.max(...words.map(({ bbox }) => bbox.x1));
    const gaps = words.slice(1).map(({ bbox }, index) => bbox.x0 - (words[index]?.bbox.x1 ?? bbox.x0));
    const ratio = rowAttributes.rowHeight / usual;
    const isLarger = ratio >= largerRatio && confidenceOf(words) > sureWord;
    const size = isLarger ? usual * sizeStep ** Math.round(Math.log(ratio) / Math.log(sizeStep)) : usual;
    const [x0, x1, up, height, gap] = [left, right, -baseline.y0, size, Math.max(0, ...gaps)].map(inPoints);
    return [textOf(words), x0 ?? 0, x1 ?? 0, up ?? 0, height ?? 0, false, gap ?? 0];
  });
}

function inPoints(pixels: number): number {
  return Math.round(pixels * pointsPerPixel * 10) / 10;
}

/** Of most text, so that a page of headings and one of notes have theirs. */
function usualHeight(lines: EngineLine[]): number {
  const heights = lines.flatMap(({ words, rowAttributes }) =>
    Array(textOf(words).length).fill(rowAttributes.rowHeight),
  );
  heights.sort((a, b) => a - b);
  return heights[Math.floor(heights.length / 2)] ?? 1;
}

const require = createRequire(import.meta.url);

/** The engine's WebAssembly build, which has no types. */
type Engine = {
  FS: { writeFile(path: string, content: Uint8Array): void };
  TessBaseAPI: new () => {
    /** 0 when it went well; mode 1 is the neural network alone. */
    Init(dataFolder: string, languages: string, mode: number): number;
    /** Reads `/input`, turned as the EXIF orientation says. 1 when it is no image that it reads. */
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

/** What the engine makes of a line. Places are in pixels from the upper left corner, confidences from 0 to 100. */
type EngineLine = z.infer<typeof line>;

/** Reads an image, turned as the EXIF orientation (1 to 8) says: lines in the order in which they are read. */
type ReadImage = (image: Uint8Array, orientation: number) => EngineLine[];

/** Where the data of a language is: a package of its own for each. */
function languageDataPath(language: string): string {
  return require.resolve(`@tesseract.js-data/${language}/4.0.0_best_int/${language}.traineddata.gz`);
}

/**
 * Starts the engine: half a second and 100 MB, so a process does it once.
 * @throws AppError corrupt_document from what it returns, for an image that it cannot decode
 */
export async function startTesseract(languages: readonly string[]): Promise<ReadImage> {
  // Of its builds the one that gives the same on every machine.
  const load: (options: object) => Promise<Engine> = require('tesseract.js-core/tesseract-core-simd-lstm');
  const quiet = () => undefined;
  const engine = await load({ print: quiet, printErr: quiet });
  for (const language of languages) {
    const data = await promisify(gunzip)(await readFile(languageDataPath(language)));
    engine.FS.writeFile(`/${language}.traineddata`, data);
  }
  const api = new engine.TessBaseAPI();
  if (api.Init('/', languages.join('+'), 1) !== 0) throw new Error('The OCR engine does not start.');

  return (image, orientation) => {
    engine.FS.writeFile('/input', image);
    const isRead = api.SetImageFile(orientation, 0) !== 1;
    // It has its own copy from here on.
    engine.FS.writeFile('/input', new Uint8Array());
    if (!isRead)
      throw appError('corrupt_document', { detail: 'The image is damaged or of a kind that cannot be read.' });
    api.Recognize(null);
    const { blocks } = page.parse(JSON.parse(api.GetJSONText()));
    api.Clear();
    return (blocks ?? []).flatMap(({ paragraphs }) => paragraphs ?? []).flatMap(({ lines }) => lines);
  };
}
