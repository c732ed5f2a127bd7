/**
 * Child process `node decode-child.ts PATH LIMITS_AS_JSON [PAGES]`: decodes a TIFF or AVIF file. Without PAGES it prints
 * the number of pages as JSON; with numbers such as `0,2` it writes these pages as consecutive PGM images.
 */
import { once } from 'node:events';
import { readFile, stat } from 'node:fs/promises';
import sharp from 'sharp';
import { appError } from '#src/errors.ts';
import { sendFailureToParentProcess, sendToParentProcess } from '../child-messages.ts';
import type { ConversionProcessLimits } from '../conversion-limits.ts';
import { checkImagePixels, checkImageSourceBytes } from './image-pages.ts';

// Allow only the two image decoders that are needed: the others are native code too.
sharp.block({ operation: ['VipsForeignLoad'] });
sharp.unblock({ operation: ['Tiff', 'Heif'].map((name) => `VipsForeignLoad${name}Buffer`) });
sharp.concurrency(1);
sharp.cache(false);

const [path = '', limitsText = '', pages] = process.argv.slice(2);
const limits: ConversionProcessLimits = JSON.parse(limitsText);
if (pages === undefined) {
  sendToParentProcess({ ready: true });
  try {
    sendToParentProcess({ pageCount: await countPages() });
  } catch (error) {
    sendFailureToParentProcess(error, 'The image is damaged: its header cannot be read.');
  }
} else {
  const bytes = await readFile(path);
  for (const page of pages.split(',').map(Number)) await writePgm(bytes, page);
}

/** Checks the size of each page, so that a page can only be drawn within the limits. */
async function countPages(): Promise<number> {
  checkImageSourceBytes(await stat(path), limits);
  const bytes = await readFile(path);
  const { pages: count = 1 } = await sharp(bytes, { limitInputPixels: false }).metadata();
  if (count > limits.ocrPages) {
    throw appError('too_large', {
      detail: `The image file has ${count} pages; OCR reads at most ${limits.ocrPages}. Split the file.`,
    });
  }
  for (let page = 0; page < count; page += 1)
    checkImagePixels(await sharp(bytes, { page, limitInputPixels: false }).metadata(), limits);
  return count;
}

async function writePgm(bytes: Buffer, page: number): Promise<void> {
  const options = { page, autoOrient: true, failOn: 'error', limitInputPixels: limits.imagePixels } as const;
  const image = sharp(bytes, options).flatten({ background: 'white' }).greyscale().raw({ depth: 'uchar' });
  const { data, info } = await image.toBuffer({ resolveWithObject: true });
  process.stdout.write(`P5\n${info.width} ${info.height}\n255\n`);
  if (!process.stdout.write(data)) await once(process.stdout, 'drain');
}
