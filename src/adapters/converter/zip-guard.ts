import { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import yauzl from 'yauzl';
import { AppError, appError } from '#src/errors.ts';
import type { ConversionLimits } from './conversion-limits.ts';

/** The first bytes of an archive with something in it. */
export const zipSignature = Buffer.from('504b0304', 'hex');

type ZipLimits = Pick<ConversionLimits, 'zipEntries' | 'zipInflatedBytes' | 'zipRatio' | 'zipRatioFromBytes'>;

/**
 * The entry names of an archive, read from its directory; nothing is inflated.
 * @throws AppError corrupt_document when it is no whole archive, too_large above `zipEntries`
 */
export async function listZipEntries(path: string, limits: Pick<ZipLimits, 'zipEntries'>): Promise<string[]> {
  const names: string[] = [];
  await eachEntry(path, limits, (entry) => void names.push(entry.fileName));
  return names;
}

/**
 * Inflates every entry once, counting and keeping nothing, so that a parser may then trust the archive's size.
 * Sizes that the archive states about itself are not believed.
 * @throws AppError too_large for a bomb; corrupt_document for damage and for XML that defines entities, which no
 * document needs but an entity bomb; older books and OpenDocument files only name their document type
 */
export async function checkZip(path: string, limits: ZipLimits): Promise<void> {
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
          return done(appError('too_large', { detail: 'The file unpacks to far more than its size: it is not read.' }));
        }
        if (isXml) {
          const text = tail + chunk.toString('latin1');
          if (/<!entity/i.test(text)) {
            return done(appError('corrupt_document', { detail: 'A part of the file defines XML entities.' }));
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
        detail: `The file holds ${zip.entryCount} parts; ${limits.zipEntries} are allowed.`,
      });
    }
    for await (const entry of zip.eachEntry()) await visit(entry, zip);
  } catch (cause) {
    if (cause instanceof AppError) throw cause;
    throw appError('corrupt_document', { detail: 'The file is a damaged or cut off archive.', cause });
  } finally {
    zip?.close();
  }
}
