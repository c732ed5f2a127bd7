import type { GreyImage } from './grey-image.ts';

/**
 * Images with fewer pixels are enlarged by these factors: A4 at 150 dpi has 2.2 million, at 100 dpi less than a
 * million. Tesseract loses most of a text whose small letters have fewer than ten pixels.
 */
const factors = [
  { belowPixels: 950_000, factor: 3 },
  { belowPixels: 2_100_000, factor: 2 },
];

/** By which factor an image is enlarged before it is read; 1 if it is large enough. */
export function enlargingFactor({ width, height }: { width: number; height: number }): number {
  return factors.find(({ belowPixels }) => width * height < belowPixels)?.factor ?? 1;
}

export function enlargeImage({ width, height, pixels }: GreyImage, factor: number): GreyImage {
  const [wide, high] = [width * factor, height * factor];
  const larger = new Uint8Array(wide * high);
  // Interpolates between the four nearest pixels.
  const place = (at: number, size: number) => {
    const exact = Math.min(size - 1, Math.max(0, (at + 0.5) / factor - 0.5));
    const before = Math.floor(exact);
    return { before, after: Math.min(size - 1, before + 1), share: exact - before };
  };
  const columns = Array.from({ length: wide }, (_, x) => place(x, width));
  let next = 0;
  for (let y = 0; y < high; y += 1) {
    const row = place(y, height);
    const [upper, lower] = [row.before * width, row.after * width];
    for (const { before, after, share } of columns) {
      const above = mix(pixels[upper + before] ?? 0, pixels[upper + after] ?? 0, share);
      const below = mix(pixels[lower + before] ?? 0, pixels[lower + after] ?? 0, share);
      larger[next] = mix(above, below, row.share) + 0.5;
      next += 1;
    }
  }
  return { width: wide, height: high, pixels: larger };
}

function mix(first: number, second: number, share: number): number {
  return first + (second - first) * share;
}
