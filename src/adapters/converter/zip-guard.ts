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
 * @throws AppError corrupt_document for an incomplete archive, too_large for more than `maxEntries` entries
 */
export async function listZipEntries(path: string, maxEntries: number): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of openZipEntries(path, maxEntries)) names.push(name);
  return names;
}

/**
 * Inflates every entry once and counts the bytes, because the sizes stated in the archive are not trusted.
 * @throws AppError too_large for a zip bomb; corrupt_document for a damaged archive or for XML entity definitions
 */
export async function checkZipArchiveLimits(path: string, limits: ZipLimits): Promise<void> {
  let total = 0;
  for await (const { name, entry, zip } of openZipEntries(path, limits.zipEntries)) {
    let inflated = 0;
    let tail = '';
    const isXml = /\.(?:xml|rels)$/i.test(name);
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
    try {
      await pipeline(await zip.openReadStreamPromise(entry), count);
    } catch (cause) {
      throw damagedZip(cause);
    }
  }
}

/** Yields the entries of a zip archive with their decoded names, which may be unsafe paths. */
export async function* openZipEntries(
  path: string,
  maxEntries: number,
): AsyncGenerator<{ name: string; entry: yauzl.Entry; zip: yauzl.ZipFile }> {
  let zip: yauzl.ZipFile | undefined;
  try {
    // With decoded names, yauzl would refuse the whole archive for one unsafe path.
    zip = await yauzl.openPromise(path, { autoClose: false, decodeStrings: false });
    if (zip.entryCount > maxEntries) {
      throw appError('too_large', {
        detail: `The file has ${zip.entryCount} zip entries; at most ${maxEntries} are allowed.`,
      });
    }
    for await (const entry of zip.eachEntry()) {
      const { generalPurposeBitFlag, fileNameRaw, extraFields } = entry;
      yield { name: yauzl.getFileNameLowLevel(generalPurposeBitFlag, fileNameRaw, extraFields, false), entry, zip };
    }
  } catch (cause) {
    throw damagedZip(cause);
  } finally {
    zip?.close();
  }
}

function damagedZip(cause: unknown): AppError {
  if (cause instanceof AppError) return cause;
  return appError('corrupt_document', {
    detail: 'The file is damaged or cut off: its zip archive cannot be read.',
    cause,
  });
}
