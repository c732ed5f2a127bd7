/** An image in Tesseract's memory: rows of 32-bit words with 1, 8 or 32 bits for each pixel, the first in the high bits. */
export type LeptonicaImage = {
  get_w(): number;
  get_h(): number;
  get_d(): number;
  get_wpl(): number;
  /** A pointer to the first word. */
  get_data(): number;
};

type Memory = { getValue(pointer: number, type: 'i32'): number };

/**
 * Images with fewer pixels are enlarged by these factors: A4 at 150 dpi has 2.2 million, at 100 dpi less than a
 * million. Tesseract loses most of a text whose small letters have fewer than ten pixels.
 */
const factors = [
  { belowPixels: 950_000, factor: 3 },
  { belowPixels: 2_100_000, factor: 2 },
];

/** Enlarges an image of few pixels and returns it as grey PGM; null if it is large enough. */
export function enlargeImage(image: LeptonicaImage, memory: Memory): Uint8Array | null {
  const [width, height] = [image.get_w(), image.get_h()];
  const factor = factors.find(({ belowPixels }) => width * height < belowPixels)?.factor;
  if (factor === undefined) return null;
  const grey = readGrey(image, memory);
  const [wide, high] = [width * factor, height * factor];
  const header = Buffer.from(`P5\n${wide} ${high}\n255\n`);
  const larger = Buffer.alloc(header.length + wide * high);
  header.copy(larger);
  // Interpolates between the four nearest pixels.
  const place = (at: number, size: number) => {
    const exact = Math.min(size - 1, Math.max(0, (at + 0.5) / factor - 0.5));
    const before = Math.floor(exact);
    return { before, after: Math.min(size - 1, before + 1), share: exact - before };
  };
  const columns = Array.from({ length: wide }, (_, x) => place(x, width));
  let next = header.length;
  for (let y = 0; y < high; y += 1) {
    const row = place(y, height);
    const [upper, lower] = [row.before * width, row.after * width];
    for (const { before, after, share } of columns) {
      const above = mix(grey[upper + before] ?? 0, grey[upper + after] ?? 0, share);
      const below = mix(grey[lower + before] ?? 0, grey[lower + after] ?? 0, share);
      larger[next] = mix(above, below, row.share) + 0.5;
      next += 1;
    }
  }
  return larger;
}

function mix(first: number, second: number, share: number): number {
  return first + (second - first) * share;
}

function readGrey(image: LeptonicaImage, { getValue }: Memory): Uint8Array {
  const [width, height, bits] = [image.get_w(), image.get_h(), image.get_d()];
  const data = image.get_data();
  const grey = new Uint8Array(width * height);
  for (let y = 0; y < height; y += 1) {
    const row = data + y * image.get_wpl() * 4;
    for (let x = 0; x < width; x += 1) {
      const bit = x * bits;
      const word = getValue(row + (bit >> 5) * 4, 'i32');
      grey[y * width + x] = greyOf(word, bits, bit & 31);
    }
  }
  return grey;
}

function greyOf(word: number, bits: number, bit: number): number {
  if (bits === 1) return (word >>> (31 - bit)) & 1 ? 0 : 255;
  if (bits === 8) return (word >>> (24 - bit)) & 255;
  return 0.3 * (word >>> 24) + 0.59 * ((word >>> 16) & 255) + 0.11 * ((word >>> 8) & 255);
}
