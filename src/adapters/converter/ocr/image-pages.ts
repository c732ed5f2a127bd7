import { imageSize } from 'image-size';
import { appError } from '#src/errors.ts';

/** The header of a binary PGM as pdf_child.py writes it: width, height and the value of white. */
const header = /^P5\n(\d+) (\d+)\n255\n/;
const headerBytes = 32;

/** PGM images that come one after the other, whole; null for one without pixels. */
export async function* readGreyMaps(input: AsyncIterable<Buffer>): AsyncGenerator<Buffer | null> {
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

/** Of the image whose first bytes these are; undefined while its header is not whole. */
function lengthOf(pending: Buffer[]): number | undefined {
  const head = Buffer.concat(pending.slice(0, 2)).toString('latin1', 0, headerBytes);
  const [text, width, height] = header.exec(head) ?? [];
  return text === undefined ? undefined : text.length + Number(width) * Number(height);
}

/** One picture of an image file, and how it is to be turned: an EXIF orientation, 1 to 8. */
type ImagePage = { image: Uint8Array; orientation: number };

type ImageLimits = { imagePixels: number; ocrPages: number };

/** Kinds of compression that hold a JPEG, which the engine decodes in a file of its own only. */
const notDecoded = [6, 7];

/**
 * The pictures of an image file: one, or those of the pages of a TIFF. Looks at headers only; nothing is decoded.
 * @returns how many there are, and each of them; all share the bytes, so one is to be done with before the next
 * @throws AppError too_large for more pixels or pages than are read, corrupt_document for a header that makes no sense
 */
export function openImage(bytes: Buffer, limits: ImageLimits): { pageCount: number; page(index: number): ImagePage } {
  const starts = isTiff(bytes) ? findTiffPages(bytes, limits) : [];
  return {
    pageCount: Math.max(1, starts.length),
    page(index) {
      const start = starts[index];
      // A TIFF begins with the place of its first page.
      if (start !== undefined) bytes.set(isLittleEndian(bytes) ? uint32(start).reverse() : uint32(start), 4);
      return { image: bytes, orientation: checkSize(bytes, limits) };
    },
  };
}

/** @returns its orientation; that of a TIFF the engine sees by itself */
function checkSize(image: Buffer, { imagePixels }: ImageLimits): number {
  const { width, height, orientation = 1, type, ...more } = sizeOf(image);
  if (width * height > imagePixels) {
    const megapixels = Math.floor(imagePixels / 1e6);
    throw appError('too_large', {
      detail: `The image has ${width} × ${height} pixels; at most ${megapixels} megapixels are read. Make it smaller.`,
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

/** Where the pages are: each tells the place of the next. */
function findTiffPages(tiff: Buffer, { ocrPages }: ImageLimits): number[] {
  const read16 = (at: number) => (isLittleEndian(tiff) ? tiff.readUInt16LE(at) : tiff.readUInt16BE(at));
  const read32 = (at: number) => (isLittleEndian(tiff) ? tiff.readUInt32LE(at) : tiff.readUInt32BE(at));
  const starts = new Set<number>();
  try {
    for (let at = read32(4); at !== 0 && !starts.has(at); at = read32(at + 2 + 12 * read16(at))) {
      starts.add(at);
      if (starts.size > ocrPages) {
        throw appError('too_large', { detail: `The TIFF has more than ${ocrPages} pages, which are not read.` });
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

/**
 * Which pictures are to be read: those of an image file but for the pages that are known, or drawn pages of a document
 * that come in through the input in this order.
 */
export type Pictures = { from: 'file'; path: string; known: number[] } | { from: 'input'; pages: number[] };
