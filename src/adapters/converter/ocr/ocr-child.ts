/** Child process `node ocr-child.ts LANGUAGES OCR_INPUT_AS_JSON LIMITS_AS_JSON`; prints one JSON line for each page. */
import { readFile, stat } from 'node:fs/promises';
import { appError } from '#src/errors.ts';
import { sendFailureToParent, sendToParent } from '../child-messages.ts';
import type { ConversionLimits } from '../conversion-limits.ts';
import { type OcrInput, openImagePages, readPgmImages } from './image-pages.ts';
import { recognizePage, startTesseract } from './tesseract.ts';

const [languages = '', picturesText = '', limitsText = ''] = process.argv.slice(2);
const pictures: OcrInput = JSON.parse(picturesText);
const limits: ConversionLimits = JSON.parse(limitsText);
const read = await startTesseract(languages.split('+'));
sendToParent({ ready: true });
try {
  if (pictures.from === 'file') await recognizeFile(pictures);
  else await recognizeInput(pictures);
} catch (error) {
  sendFailureToParent(error, 'The picture is damaged: reading it failed.');
}

async function recognizeFile({ path, known }: Extract<OcrInput, { from: 'file' }>): Promise<void> {
  const { size } = await stat(path);
  if (size > limits.sourceBytes)
    throw appError('too_large', {
      detail: `The image file has ${size} bytes; at most ${limits.sourceBytes} are allowed.`,
    });
  const { pageCount, page } = openImagePages(await readFile(path), limits);
  sendToParent({ pageCount });
  for (let pageIndex = 0; pageIndex < pageCount; pageIndex += 1) {
    if (known.includes(pageIndex)) continue;
    const { image, orientation } = page(pageIndex);
    sendToParent({ pageIndex, lines: recognizePage(read, image, orientation) });
  }
}

async function recognizeInput({ pages }: Extract<OcrInput, { from: 'input' }>): Promise<void> {
  let next = 0;
  for await (const image of readPgmImages(process.stdin)) {
    sendToParent({ pageIndex: pages[next], lines: image === null ? [] : recognizePage(read, image, 1) });
    next += 1;
  }
}
