import sharp, { type Sharp } from 'sharp';

type Size = { width: number; height: number };
type Rgb = readonly [number, number, number];
/** As an image is read: of each pixel its red, green and blue. */
export type Pixels = Size & { at(x: number, y: number): Rgb };

const red = { r: 255, g: 0, b: 0 };
const blue = { r: 0, g: 0, b: 255 };

export function plainImage({ width, height }: Size): Sharp {
  return sharp({ create: { width, height, channels: 3, background: blue } });
}

/** One that takes room in every format. */
export function noisyImage({ width, height }: Size): Sharp {
  const noise = { type: 'gaussian', mean: 99, sigma: 50 } as const;
  return sharp({ create: { width, height, channels: 3, background: blue, noise } });
}

/** Red with a blue square in its middle that is as high as the image. */
export function imageWithMiddle({ width, height }: Size): Sharp {
  const middle = { create: { width: height, height, channels: 3, background: blue } } as const;
  return sharp({ create: { width, height, channels: 3, background: red } }).composite([{ input: middle }]);
}

/** Red on the left and blue on the right. */
export function imageOfHalves({ width, height }: Size): Sharp {
  const half = { create: { width: width / 2, height, channels: 3, background: blue } } as const;
  const place = { left: width / 2, top: 0 };
  return sharp({ create: { width, height, channels: 3, background: red } }).composite([{ input: half, ...place }]);
}

export async function pixelsOf(image: Uint8Array): Promise<Pixels> {
  const { data, info } = await sharp(image).removeAlpha().raw().toBuffer({ resolveWithObject: true });
  const { width, height, channels } = info;
  return {
    width,
    height,
    at(x, y) {
      const [r = 0, g = 0, b = 0] = data.subarray((y * width + x) * channels);
      return [r, g, b];
    },
  };
}

/** Lossy formats move a colour a little. */
export const isRed = ([r, g, b]: Rgb): boolean => r > 200 && g < 60 && b < 60;
export const isBlue = ([r, g, b]: Rgb): boolean => b > 200 && r < 60 && g < 60;
