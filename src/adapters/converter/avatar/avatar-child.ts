/**
 * The process in which an avatar is made: `node avatar-child.ts MAX_PIXELS`, with the image on its input.
 * Writes a line `{"ready":true}` when everything is loaded, then one with the avatar in base64 or with an error code.
 */
import { buffer } from 'node:stream/consumers';
import sharp from 'sharp';
import { appError } from '#src/errors.ts';
import { say, sayFailure } from '../child-messages.ts';

const maxSide = 512;
const loaders = ['Png', 'Jpeg', 'Webp', 'Nsgif'];

// What decodes other formats is not to be tried on them.
sharp.block({ operation: ['VipsForeignLoad'] });
sharp.unblock({ operation: loaders.map((name) => `VipsForeignLoad${name}Buffer`) });
sharp.concurrency(1);

const maxPixels = Number(process.argv[2]);
say({ ready: true });
try {
  const avatar = await avatarOf(await buffer(process.stdin));
  say({ avatar: avatar.toString('base64') });
} catch (error) {
  sayFailure(error, 'The image is damaged: reading it failed.');
}

/** Without `keepMetadata`, sharp writes the pixels alone, in sRGB. */
async function avatarOf(image: Buffer): Promise<Buffer> {
  const { width, height } = await sizeOf(image);
  if (width * height > maxPixels) {
    throw appError('too_large', {
      detail: `The image has ${width} × ${height} pixels; at most ${maxPixels / 1e6} megapixels are read. Make it smaller.`,
    });
  }
  const side = Math.min(maxSide, width, height);
  return sharp(image, { autoOrient: true, failOn: 'error', limitInputPixels: maxPixels })
    .resize(side, side, { fit: 'cover' })
    .webp()
    .toBuffer();
}

/** Reads the header and no more. */
async function sizeOf(image: Buffer): Promise<{ width: number; height: number }> {
  try {
    return await sharp(image, { limitInputPixels: false }).metadata();
  } catch (cause) {
    if (!String(cause).includes('unsupported image format')) throw cause;
    throw appError('unsupported_format', { detail: 'An avatar is made of a PNG, JPEG, WebP or GIF.', cause });
  }
}
