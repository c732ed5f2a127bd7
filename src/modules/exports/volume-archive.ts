import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { ZipFile } from 'yazl';

/** Beyond it a file is written in the long form, which some old programs cannot read. */
const LONG_FORM_BYTES = 3 * 1024 ** 3;

export type ArchivedFile = { path: string; bytes: number; sha256: string };

export type VolumeArchive = ReturnType<typeof createVolumeArchive>;

/**
 * A ZIP archive that is made while it is read: no more than some pieces of it are in memory.
 * @param mtime of its files: made again of the same content, it is the same
 */
export function createVolumeArchive(mtime: Date) {
  const zip = new ZipFile();
  const { outputStream: content } = zip;
  if (!(content instanceof Readable)) throw new TypeError('the archive cannot be read');
  const left = new Promise<never>((_, reject) => {
    content.once('close', () => reject(content.errored ?? new Error('nobody reads the archive any more')));
  });
  left.catch(() => undefined);
  zip.on('error', (error) => content.destroy(error));
  const files: ArchivedFile[] = [];
  let bytes = 0;

  return {
    content,

    /** Of all files so far, before they are compressed. */
    get bytes(): number {
      return bytes;
    },

    get files(): readonly ArchivedFile[] {
      return files;
    },

    /** Returns when all of it was taken up. Throws what its source does, and what the reader has left with. */
    async add(
      path: string,
      source: AsyncIterable<Buffer | string>,
      { isPacked = false, sizeBytes = 0 }: { isPacked?: boolean; sizeBytes?: number } = {},
    ): Promise<ArchivedFile> {
      const hash = createHash('sha256');
      let ownBytes = 0;
      async function* measured(): AsyncGenerator<Buffer> {
        for await (const piece of source) {
          const buffer = Buffer.from(piece);
          if (buffer.length === 0) continue;
          hash.update(buffer);
          ownBytes += buffer.length;
          bytes += buffer.length;
          yield buffer;
        }
      }
      const stream = Readable.from(measured(), { objectMode: false });
      const forceZip64Format = sizeBytes > LONG_FORM_BYTES;
      zip.addReadStream(stream, path, { mtime, compress: !isPacked, forceZip64Format });
      await Promise.race([once(stream, 'end'), left]).finally(() => stream.destroy());
      const file = { path, bytes: ownBytes, sha256: hash.digest('hex') };
      files.push(file);
      return file;
    },

    end(): void {
      zip.end();
    },

    /** Its reader gets the error. */
    fail(error: unknown): void {
      content.destroy(error instanceof Error ? error : new Error(String(error)));
    },
  };
}
