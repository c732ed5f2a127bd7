import type { Readable } from 'node:stream';
import { atMost } from '#src/adapters/bounded-body.ts';
import { appError } from '#src/errors.ts';

/**
 * For a whole file, so that bytes that come one by one do not go on for ever. It is less than the hour that an import has
 * for a file (`transfer` in `workflows/policies.ts`): what ends here is an error of the file.
 */
export const longestDownloadMs = 50 * 60_000;

/**
 * A download that ends with `payload_too_large` where it gets too long, at once where its provider has announced that,
 * and with `provider_unavailable` where it breaks off or takes too long. Destroying it closes the connection.
 * @param options.announcedBytes 0 where the provider did not say
 */
export function limited(
  body: Readable,
  { announcedBytes, limitBytes, longestMs }: { announcedBytes: number; limitBytes: number; longestMs: number },
): Readable {
  if (announcedBytes > limitBytes) {
    body.on('error', () => {}).destroy();
    throw tooLarge(limitBytes);
  }
  const content = atMost(limitBytes, () => tooLarge(limitBytes));
  const fail = (detail: string) => content.destroy(appError('provider_unavailable', { detail }));
  const timer = setTimeout(() => fail(`The download takes longer than ${longestMs / 60_000} minutes.`), longestMs);
  body.on('error', () => fail('It broke off the download.'));
  content.once('close', () => {
    clearTimeout(timer);
    body.destroy();
  });
  // Its reader may have left when it fails, and an error that nobody hears ends the process.
  content.on('error', () => {});
  return body.pipe(content);
}

function tooLarge(limitBytes: number) {
  return appError('payload_too_large', { detail: `The file has more than ${limitBytes} bytes.` });
}
