import { type Readable, Transform } from 'node:stream';
import { appError } from '#src/errors.ts';

/**
 * A download that ends with `payload_too_large` where it gets too long, at once where its provider has announced that,
 * and with `provider_unavailable` where it breaks off. Who destroys it hangs up.
 * @param announcedBytes 0 where nobody knows
 */
export function limited(body: Readable, announcedBytes: number, limitBytes: number): Readable {
  if (announcedBytes > limitBytes) {
    body.on('error', () => {}).destroy();
    throw tooLarge(limitBytes);
  }
  let sizeBytes = 0;
  const content = new Transform({
    transform(piece: Buffer, _encoding, done) {
      sizeBytes += piece.length;
      if (sizeBytes > limitBytes) done(tooLarge(limitBytes));
      else done(null, piece);
    },
  });
  body.on('error', () => {
    content.destroy(appError('provider_unavailable', { detail: 'It broke off the download.' }));
  });
  content.once('close', () => body.destroy());
  // Its reader may have left when it fails, and an error that nobody hears ends the process.
  content.on('error', () => {});
  return body.pipe(content);
}

function tooLarge(limitBytes: number) {
  return appError('payload_too_large', { detail: `The file has more than ${limitBytes} bytes.` });
}
