/** Child process `node ocr-child.ts LANGUAGES OCR_INPUT_AS_JSON LIMITS_AS_JSON`; prints one JSON line for each page. */
import { readFile, stat } from 'node:fs/promises';
import { appError } from '#src/errors.ts';
import { sendFailureToParentProcess, sendToParentProcess } from '../child-messages.ts';
import type { ConversionProcessLimits } from '../conversion-limits.ts';
import { type OcrProcessInput, openImagePagesForOcr, readPgmImages } from './image-pages.ts';
import { recognizePageByOcr, startTesseract } from './tesseract.ts';

const [languages = '', picturesText = '', limitsText = ''] = process.argv.slice(2);
const pictures: OcrProcessInput = JSON.parse(picturesText);
const limits: ConversionProcessLimits = JSON.parse(limitsText);
const read = await startTesseract(languages.split('+'));
sendToParentProcess({ ready: true });
try {
  if (pictures.from === 'file') await recognizeFile(pictures);
  else await recognizeInput(pictures);
} catch (error) {
  sendFailureToParentProcess(error, 'The picture is damaged: reading it failed.');
}

async function recognizeFile({ path, known }: Extract<OcrProcessInput, { from: 'file' }>): Promise<void> {
  const { size } = await stat(path);
  if (size > limits.sourceBytes)
    throw appError('too_large', {
      detail: `The image file has ${size} bytes; at most ${limits.sourceBytes} are allowed.`,
    });
  const { pageCount, page } = openImagePagesForOcr(await readFile(path), limits);
  sendToParentProcess({ pageCount });
  for (let pageIndex = 0; pageIndex < pageCount; pageIndex += 1) {
    if (known.includes(pageIndex)) continue;
    const { image, orientation } = page(pageIndex);
    sendToParentProcess({ pageIndex, lines: recognizePageByOcr(read, image, orientation) });
  }
}

async function recognizeInput({ pages }: Extract<OcrProcessInput, { from: 'input' }>): Promise<void> {
  let next = 0;
  for await (const image of readPgmImages(process.stdin)) {
    sendToParentProcess({ pageIndex: pages[next], lines: image === null ? [] : recognizePageByOcr(read, image, 1) });
    next += 1;
  }
}
