/** Child process `node ocr-child.ts LANGUAGES OCR_INPUT_AS_JSON LIMITS_AS_JSON`; prints one JSON line for each page. */
import { readFile, stat } from 'node:fs/promises';
import { sendFailureToParentProcess, sendToParentProcess } from '../child-messages.ts';
import type { ConversionProcessLimits } from '../conversion-limits.ts';
import { checkImageSourceBytes, type OcrProcessInput, orientationOfImage, readPgmImages } from './image-pages.ts';
import { recognizePageByOcr } from './recognize-page.ts';
import { startTesseract } from './tesseract.ts';
import { withUnreadableNote } from './unreadable-pages.ts';

const [languages = '', picturesText = '', limitsText = ''] = process.argv.slice(2);
const pictures: OcrProcessInput = JSON.parse(picturesText);
const limits: ConversionProcessLimits = JSON.parse(limitsText);
const emptyPage = { lines: [], isUnreadable: false };
const read = await startTesseract(languages.split('+'));
sendToParentProcess({ ready: true });
try {
  if (pictures.from === 'file') await recognizeFile(pictures);
  else await recognizeInput(pictures);
} catch (error) {
  sendFailureToParentProcess(error, 'The picture is damaged: reading it failed.');
}

async function recognizeFile({ path }: Extract<OcrProcessInput, { from: 'file' }>): Promise<void> {
  checkImageSourceBytes(await stat(path), limits);
  const image = await readFile(path);
  const orientation = orientationOfImage(image, limits);
  sendPage(0, image, orientation);
}

async function recognizeInput({ pages }: Extract<OcrProcessInput, { from: 'input' }>): Promise<void> {
  let next = 0;
  for await (const image of readPgmImages(process.stdin)) {
    sendPage(pages[next] ?? 0, image, 1);
    next += 1;
  }
}

function sendPage(pageIndex: number, image: Uint8Array | null, orientation: number): void {
  const { lines, isUnreadable } = image === null ? emptyPage : recognizePageByOcr(read, image, orientation);
  sendToParentProcess({ pageIndex, lines: isUnreadable ? withUnreadableNote(pageIndex, languages, lines) : lines });
}
