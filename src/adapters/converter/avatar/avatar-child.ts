/**
 * Child process `node avatar-child.ts MAX_PIXELS`: image on stdin, avatar in base64 or an error code as JSON on stdout.
 */
import { buffer } from 'node:stream/consumers';
import sharp from 'sharp';
import { appError } from '#src/errors.ts';
import { sendFailureToParentProcess, sendToParentProcess } from '../child-messages.ts';

const maxSide = 512;
const loaders = ['Png', 'Jpeg', 'Webp', 'Nsgif'];

// Allow only the image decoders for avatar formats: the others are native code that no avatar needs.
sharp.block({ operation: ['VipsForeignLoad'] });
sharp.unblock({ operation: loaders.map((name) => `VipsForeignLoad${name}Buffer`) });
sharp.concurrency(1);

const maxPixels = Number(process.argv[2]);
sendToParentProcess({ ready: true });
try {
  const avatar = await avatarOf(await buffer(process.stdin));
  sendToParentProcess({ avatar: avatar.toString('base64') });
} catch (error) {
  sendFailureToParentProcess(error, 'The image is damaged: reading it failed.');
}

/** The resulting avatar has no metadata (EXIF, location), because sharp drops it unless `keepMetadata` is called. */
async function avatarOf(image: Buffer): Promise<Buffer> {
  const { width, height } = await sizeOf(image);
  if (width * height > maxPixels) {
    throw appError('too_large', {
      detail: `The image has ${width} × ${height} pixels; at most ${maxPixels / 1e6} megapixels are allowed. Scale it down.`,
    });
  }
  const side = Math.min(maxSide, width, height);
  return sharp(image, { autoOrient: true, failOn: 'error', limitInputPixels: maxPixels })
    .resize(side, side, { fit: 'cover' })
    .webp()
    .toBuffer();
}

async function sizeOf(image: Buffer): Promise<{ width: number; height: number }> {
  try {
    return await sharp(image, { limitInputPixels: false }).metadata();
  } catch (cause) {
    if (!String(cause).includes('unsupported image format')) throw cause;
    throw appError('unsupported_format', { detail: 'The avatar must be a PNG, JPEG, WebP or GIF image.', cause });
  }
}
