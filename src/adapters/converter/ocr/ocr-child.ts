/**
 * The process in which pictures are read: `node ocr-child.ts LANGUAGES PICTURES_AS_JSON LIMITS_AS_JSON`.
 * Writes a line `{"ready":true}` when everything is loaded, then one with the number of pictures and one for each
 * that is not known, or one with an error code.
 */
import { readFile, stat } from 'node:fs/promises';
import { appError } from '#src/errors.ts';
import { say, sayFailure } from '../child-messages.ts';
import type { ConversionLimits } from '../conversion-limits.ts';
import { openImage, type Pictures, readGreyMaps } from './image-pages.ts';
import { recognizePage, startTesseract } from './tesseract.ts';

const [languages = '', picturesText = '', limitsText = ''] = process.argv.slice(2);
const pictures: Pictures = JSON.parse(picturesText);
const limits: ConversionLimits = JSON.parse(limitsText);
const read = await startTesseract(languages.split('+'));
say({ ready: true });
try {
  if (pictures.from === 'file') await recognizeFile(pictures);
  else await recognizeInput(pictures);
} catch (error) {
  sayFailure(error, 'The picture is damaged: reading it failed.');
}

async function recognizeFile({ path, known }: Extract<Pictures, { from: 'file' }>): Promise<void> {
  const { size } = await stat(path);
  if (size > limits.sourceBytes) throw appError('too_large', { detail: 'The file is larger than an image may be.' });
  const { pageCount, page } = openImage(await readFile(path), limits);
  say({ pageCount });
  for (let pageIndex = 0; pageIndex < pageCount; pageIndex += 1) {
    if (known.includes(pageIndex)) continue;
    const { image, orientation } = page(pageIndex);
    say({ pageIndex, lines: recognizePage(read, image, orientation) });
  }
}

/** Page after page is drawn by another process, as fast as they are read here. */
async function recognizeInput({ pages }: Extract<Pictures, { from: 'input' }>): Promise<void> {
  let next = 0;
  for await (const image of readGreyMaps(process.stdin)) {
    // What could not be drawn is a picture without pixels.
    say({ pageIndex: pages[next], lines: image === null ? [] : recognizePage(read, image, 1) });
    next += 1;
  }
}
