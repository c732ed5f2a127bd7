import { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import yauzl from 'yauzl';
import { AppError, appError } from '#src/errors.ts';
import type { ConversionProcessLimits } from './conversion-limits.ts';

/** First bytes of a zip archive with at least one entry. */
export const zipSignature = Buffer.from('504b0304', 'hex');

type ZipLimits = Pick<ConversionProcessLimits, 'zipEntries' | 'zipInflatedBytes' | 'zipRatio' | 'zipRatioFromBytes'>;

/**
 * Lists entry names.
 * @throws AppError corrupt_document for an incomplete archive, too_large for more than `zipEntries` entries
 */
export async function listZipEntries(path: string, limits: Pick<ZipLimits, 'zipEntries'>): Promise<string[]> {
  const names: string[] = [];
  await eachEntry(path, limits, (entry) => void names.push(entry.fileName));
  return names;
}

/**
 * Inflates every entry once and counts the bytes, because the sizes stated in the archive are not trusted.
 * @throws AppError too_large for a zip bomb; corrupt_document for a damaged archive or for XML entity definitions
 */
export async function checkZipArchiveLimits(path: string, limits: ZipLimits): Promise<void> {
  let total = 0;
  await eachEntry(path, limits, async (entry, zip) => {
    let inflated = 0;
    let tail = '';
    const isXml = /\.(?:xml|rels)$/i.test(entry.fileName);
    const count = new Writable({
      write(chunk: Buffer, _encoding, done) {
        inflated += chunk.length;
        total += chunk.length;
        const ratio = inflated / Math.max(1, entry.compressedSize);
        if (total > limits.zipInflatedBytes || (inflated > limits.zipRatioFromBytes && ratio > limits.zipRatio)) {
          return done(
            appError('too_large', { detail: 'The file decompresses to more data than is allowed for its size.' }),
          );
        }
        if (isXml) {
          const text = tail + chunk.toString('latin1');
          if (/<!entity/i.test(text)) {
            return done(
              appError('corrupt_document', { detail: 'The file defines XML entities, which are not allowed.' }),
            );
          }
          tail = text.slice(-16);
        }
        done();
      },
    });
    await pipeline(await zip.openReadStreamPromise(entry), count);
  });
}

async function eachEntry(
  path: string,
  limits: Pick<ZipLimits, 'zipEntries'>,
  visit: (entry: yauzl.Entry, zip: yauzl.ZipFile) => Promise<void> | void,
): Promise<void> {
  let zip: yauzl.ZipFile | undefined;
  try {
    zip = await yauzl.openPromise(path, { autoClose: false });
    if (zip.entryCount > limits.zipEntries) {
      throw appError('too_large', {
        detail: `The file has ${zip.entryCount} zip entries; at most ${limits.zipEntries} are allowed.`,
      });
    }
    for await (const entry of zip.eachEntry()) await visit(entry, zip);
  } catch (cause) {
    if (cause instanceof AppError) throw cause;
    throw appError('corrupt_document', {
      detail: 'The file is damaged or cut off: its zip archive cannot be read.',
      cause,
    });
  } finally {
    zip?.close();
  }
}
