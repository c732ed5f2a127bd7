import { imageSize } from 'image-size';
import { appError } from '#src/errors.ts';

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

type ImagePage = { image: Uint8Array; orientation: number };

type ImageLimits = { imagePixels: number; ocrPages: number };

/** TIFF compression types for JPEG, which Tesseract does not decode. */
const notDecoded = [6, 7];

/**
 * Opens an image file as a list of pages (several for a TIFF) and reads only the headers. All pages share one buffer:
 * finish with a page before you request the next.
 * @throws AppError too_large for too many pixels or pages, corrupt_document for an invalid header
 */
export function openImagePagesForOcr(
  bytes: Buffer,
  limits: ImageLimits,
): { pageCount: number; page(index: number): ImagePage } {
  const starts = isTiff(bytes) ? findTiffPages(bytes, limits) : [];
  return {
    pageCount: Math.max(1, starts.length),
    page(index) {
      const start = starts[index];
      // The TIFF header is patched to point to the requested page.
      if (start !== undefined) bytes.set(isLittleEndian(bytes) ? uint32(start).reverse() : uint32(start), 4);
      return { image: bytes, orientation: checkSize(bytes, limits) };
    },
  };
}

/**
 * Rejects an image with too many pixels and a TIFF that is compressed as JPEG.
 * @returns the EXIF orientation; 1 for a TIFF, which Tesseract rotates itself
 */
function checkSize(image: Buffer, { imagePixels }: ImageLimits): number {
  const { width, height, orientation = 1, type, ...more } = sizeOf(image);
  if (width * height > imagePixels) {
    const megapixels = Math.floor(imagePixels / 1e6);
    throw appError('too_large', {
      detail: `The image has ${width} × ${height} pixels; at most ${megapixels} megapixels are allowed. Scale it down.`,
    });
  }
  if ('compression' in more && notDecoded.includes(Number(more.compression))) {
    throw appError('unsupported_format', {
      detail: 'The TIFF is compressed as JPEG, which cannot be read. Save it as PNG, JPEG or PDF.',
    });
  }
  return type === 'tiff' ? 1 : orientation;
}

function sizeOf(image: Buffer): ReturnType<typeof imageSize> {
  try {
    return imageSize(image);
  } catch (cause) {
    throw appError('corrupt_document', { detail: 'The image is damaged: its header cannot be read.', cause });
  }
}

function isTiff(bytes: Buffer): boolean {
  return ['II*\0', 'MM\0*'].includes(bytes.toString('latin1', 0, 4));
}

function isLittleEndian(tiff: Buffer): boolean {
  return tiff[0] === 0x49;
}

function findTiffPages(tiff: Buffer, { ocrPages }: ImageLimits): number[] {
  const read16 = (at: number) => (isLittleEndian(tiff) ? tiff.readUInt16LE(at) : tiff.readUInt16BE(at));
  const read32 = (at: number) => (isLittleEndian(tiff) ? tiff.readUInt32LE(at) : tiff.readUInt32BE(at));
  const starts = new Set<number>();
  try {
    for (let at = read32(4); at !== 0 && !starts.has(at); at = read32(at + 2 + 12 * read16(at))) {
      starts.add(at);
      if (starts.size > ocrPages) {
        throw appError('too_large', {
          detail: `The TIFF has more than ${ocrPages} pages, the limit of OCR. Split the file.`,
        });
      }
    }
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    throw appError('corrupt_document', { detail: 'The TIFF is damaged or cut off.', cause });
  }
  return [...starts];
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Input of the OCR process: an image file whose pages in `known` are skipped, or images of `pages` from stdin. */
export type OcrProcessInput = { from: 'file'; path: string; known: number[] } | { from: 'input'; pages: number[] };
