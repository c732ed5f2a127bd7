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

/** Rows of pixels from 0 (black) to 255 (white). */
export type GreyImage = { width: number; height: number; pixels: Uint8Array };

export function readGrey(image: LeptonicaImage, { getValue }: Memory): GreyImage {
  const [width, height, bits] = [image.get_w(), image.get_h(), image.get_d()];
  const data = image.get_data();
  const pixels = new Uint8Array(width * height);
  const perWord = 32 / bits;
  let next = 0;
  for (let y = 0; y < height; y += 1) {
    const row = data + y * image.get_wpl() * 4;
    for (let x = 0; x < width; x += perWord) {
      const word = getValue(row + ((x * bits) >> 5) * 4, 'i32');
      const end = Math.min(perWord, width - x);
      for (let index = 0; index < end; index += 1) {
        pixels[next] = greyOf(word, bits, index * bits);
        next += 1;
      }
    }
  }
  return { width, height, pixels };
}

function greyOf(word: number, bits: number, bit: number): number {
  if (bits === 1) return (word >>> (31 - bit)) & 1 ? 0 : 255;
  if (bits === 8) return (word >>> (24 - bit)) & 255;
  return 0.3 * (word >>> 24) + 0.59 * ((word >>> 16) & 255) + 0.11 * ((word >>> 8) & 255);
}

export function writePgm({ width, height, pixels }: GreyImage): Uint8Array {
  return Buffer.concat([Buffer.from(`P5\n${width} ${height}\n255\n`), pixels]);
}
