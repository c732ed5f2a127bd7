import { imageSize } from 'image-size';
import { appError } from '#src/errors.ts';
import type { ConversionProcessLimits } from '../conversion-limits.ts';

const header = /^P5\n(\d+) (\d+)\n255\n/;
const headerBytes = 32;

/** Splits a stream of PGM images. Yields null for an image without pixels, which stands for an undrawable page. */
export async function* readPgmImages(input: AsyncIterable<Buffer>): AsyncGenerator<Buffer | null> {
  let pending: Buffer[] = [];
  let length = 0;
  let wanted: number | undefined;
  for await (const chunk of input) {
    pending.push(chunk);
    length += chunk.length;
    for (;;) {
      wanted ??= lengthOf(pending);
      if (wanted === undefined || length < wanted) break;
      const received = Buffer.concat(pending);
      const isEmpty = header.exec(received.toString('latin1', 0, headerBytes))?.[0].length === wanted;
      yield isEmpty ? null : received.subarray(0, wanted);
      pending = [received.subarray(wanted)];
      length = received.length - wanted;
      wanted = undefined;
    }
  }
}

function lengthOf(pending: Buffer[]): number | undefined {
  const head = Buffer.concat(pending.slice(0, 2)).toString('latin1', 0, headerBytes);
  const [text, width, height] = header.exec(head) ?? [];
  return text === undefined ? undefined : text.length + Number(width) * Number(height);
}

type ImageLimits = Pick<ConversionProcessLimits, 'imagePixels' | 'sourceBytes'>;

/** @throws AppError too_large */
export function checkImageSourceBytes({ size }: { size: number }, { sourceBytes }: ImageLimits): void {
  if (size <= sourceBytes) return;
  throw appError('too_large', { detail: `The image file has ${size} bytes; at most ${sourceBytes} are allowed.` });
}

/** @throws AppError too_large */
export function checkImagePixels(
  { width, height }: { width: number; height: number },
  { imagePixels }: ImageLimits,
): void {
  if (width * height <= imagePixels) return;
  const megapixels = Math.floor(imagePixels / 1e6);
  throw appError('too_large', {
    detail: `The image has ${width} × ${height} pixels; at most ${megapixels} megapixels are allowed. Scale it down.`,
  });
}

/**
 * Reads the EXIF orientation of an image from its header.
 * @throws AppError too_large for too many pixels, corrupt_document for an invalid header
 */
export function orientationOfImage(image: Buffer, limits: ImageLimits): number {
  const size = sizeOf(image);
  checkImagePixels(size, limits);
  return size.orientation ?? 1;
}

function sizeOf(image: Buffer): ReturnType<typeof imageSize> {
  try {
    return imageSize(image);
  } catch (cause) {
    throw appError('corrupt_document', { detail: 'The image is damaged: its header cannot be read.', cause });
  }
}

/** Input of the OCR process: an image file, or images of `pages` from stdin. */
export type OcrProcessInput = { from: 'file'; path: string } | { from: 'input'; pages: number[] };
