import type { OcrLine } from '#src/ports/documents.ts';
import type { RecognizeImage } from './tesseract.ts';
import {
  confidenceOf,
  isSideways,
  isSure,
  lengthOf,
  minConfidence,
  type TesseractLine,
  textOf,
  usualHeight,
  type Words,
} from './tesseract-lines.ts';

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
