import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { PassThrough, Readable, Transform } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import { createGunzip } from 'node:zlib';
import { createTarDecoder, type ParsedTarEntry } from 'modern-tar';
import { AppError, appError } from '#src/errors.ts';
import type { ArchiveEntry } from '#src/ports/documents.ts';
import type { ConversionProcessLimits } from './conversion-limits.ts';
import { openZipEntries, zipSignature } from './zip-guard.ts';

type ArchiveLimits = Pick<
  ConversionProcessLimits,
  'archiveEntries' | 'archiveInflatedBytes' | 'zipInflatedBytes' | 'zipRatio' | 'zipRatioFromBytes'
>;

const gzipSignature = Buffer.from('1f8b', 'hex');

/**
 * Lists the files of a `.zip`, `.tar` or `.tar.gz` file in their order, without folders. Links, devices and other entries
 * that must not be read have a `refusal`. The content of an entry can be opened until the next one is requested.
 * @throws AppError too_large above the limits, corrupt_document for a damaged archive
 */
export async function* readArchiveEntries(path: string, limits: ArchiveLimits): AsyncGenerator<ArchiveEntry> {
  const head = await readHead(path);
  // An empty archive has another signature, but also begins with the letters PK.
  const isZip = head.subarray(0, 2).equals(zipSignature.subarray(0, 2));
  let count = 0;
  let total = 0;
  for await (const entry of isZip ? zipEntries(path, limits) : tarEntries(path, head, limits)) {
    count += 1;
    total += entry.sizeBytes;
    if (count > limits.archiveEntries) {
      throw appError('too_large', {
        detail: `The archive has more than ${limits.archiveEntries} files. Split it.`,
      });
    }
    if (total > limits.archiveInflatedBytes) throw unpacksToTooMuch();
    yield entry;
  }
}

/** The list of an archive's files as Markdown, which is the text of the archive's document. */
export async function listArchiveAsMarkdown(
  path: string,
  { limits, signal }: { limits: ArchiveLimits; signal: AbortSignal },
): Promise<string> {
  const lines: string[] = [];
  for await (const { path: name, sizeBytes, refusal } of readArchiveEntries(path, limits)) {
    signal.throwIfAborted();
    lines.push(`- ${name} (${refusal === null ? `${sizeBytes} bytes` : `not imported: ${refusal}`})`);
  }
  if (lines.length === 0) throw appError('empty_document', { detail: 'The archive holds no files.' });
  return `The files of the archive:\n\n${lines.join('\n')}`;
}

async function* zipEntries(path: string, limits: ArchiveLimits): AsyncGenerator<ArchiveEntry> {
  for await (const { name, entry, zip } of openZipEntries(path, limits.archiveEntries)) {
    if (name.endsWith('/')) continue;
    const isLink = ((entry.externalFileAttributes >>> 16) & 0xf000) === 0xa000;
    const { uncompressedSize: sizeBytes, compressedSize } = entry;
    const isBomb = sizeBytes > limits.zipRatioFromBytes && sizeBytes > compressedSize * limits.zipRatio;
    const kindRefusal = isLink
      ? 'it is a link'
      : entry.isEncrypted()
        ? 'it is protected by a password'
        : entry.compressionMethod !== 0 && entry.compressionMethod !== 8
          ? 'its compression method is not supported'
          : isBomb
            ? 'it decompresses to more data than is allowed for its size'
            : null;
    yield {
      path: cleanPath(name),
      sizeBytes,
      refusal: kindRefusal ?? refusalOf(name, sizeBytes),
      open: async () => guarded(await zip.openReadStreamPromise(entry)),
    };
  }
}

async function* tarEntries(path: string, head: Buffer, limits: ArchiveLimits): AsyncGenerator<ArchiveEntry> {
  const file = createReadStream(path);
  const isCompressed = head.subarray(0, 2).equals(gzipSignature);
  const content = isCompressed ? inflated(file, limits) : file;
  const decoded = Readable.toWeb(content) as ReadableStream<Uint8Array<ArrayBuffer>>;
  const entries = decoded.pipeThrough(createTarDecoder({ strict: true }) as never) as ReadableStream<ParsedTarEntry>;
  try {
    for await (const { header, body } of entries) {
      const { name, type = 'file', size: sizeBytes } = header;
      let isOpened = false;
      if (type !== 'directory' && !name.endsWith('/')) {
        yield {
          path: cleanPath(name),
          sizeBytes,
          refusal: type === 'file' ? refusalOf(name, sizeBytes) : `it is a ${type === 'symlink' ? 'link' : type}`,
          open: () => {
            isOpened = true;
            return Promise.resolve(guarded(Readable.fromWeb(body as never)));
          },
        };
      }
      if (!isOpened) await body.cancel();
    }
  } catch (cause) {
    throw damaged(cause);
  } finally {
    file.destroy();
  }
}

/**
 * Counts the bytes, because the header of a compressed file does not say what it decompresses to. The ratio is checked
 * late: a tar of many tiny files is mostly padding.
 */
function inflated(file: Readable, limits: ArchiveLimits): Readable {
  let read = 0;
  let written = 0;
  const countRead = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      read += chunk.length;
      done(null, chunk);
    },
  });
  const countWritten = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      written += chunk.length;
      const isBomb = written > limits.zipInflatedBytes && written > read * limits.zipRatio;
      done(isBomb || written > limits.archiveInflatedBytes ? unpacksToTooMuch() : null, chunk);
    },
  });
  const stages = [countRead, createGunzip(), countWritten];
  return stages.reduce<Readable>((from, to) => {
    from.on('error', (error) => to.destroy(error));
    return from.pipe(to);
  }, file);
}

/** A stream whose errors are those of the archive. Destroying it destroys `content`, on which the next entry waits. */
function guarded(content: Readable): Readable {
  const output = new PassThrough();
  content.on('error', (error) => output.destroy(damaged(error)));
  output.on('close', () => content.destroy());
  return content.pipe(output);
}

const systemFile = /^(?:__MACOSX\/.*|(?:.*\/)?(?:\.DS_Store|\._[^/]*|Thumbs\.db|desktop\.ini))$/i;
const nestedArchive = /\.(?:7z|ar|bz2|cab|gz|jar|rar|tar|tgz|txz|war|xz|zip|zst)$/i;

function refusalOf(name: string, sizeBytes: number): string | null {
  if (/^(?:\/|\\|[a-z]:)|(?:^|[/\\])\.\.(?:[/\\]|$)/i.test(name)) return 'its path leads out of the archive';
  if (systemFile.test(name)) return 'it is a file of the operating system';
  if (nestedArchive.test(name)) return 'it is an archive inside of the archive';
  return sizeBytes === 0 ? 'it is empty' : null;
}

function cleanPath(name: string): string {
  const names = name.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, ' ').split('/');
  return names.filter((each) => each !== '' && each !== '.').join('/');
}

async function readHead(path: string): Promise<Buffer> {
  const file = await open(path);
  try {
    return (await file.read(Buffer.alloc(4), 0, 4, 0)).buffer;
  } finally {
    await file.close();
  }
}

function unpacksToTooMuch(): AppError {
  return appError('too_large', { detail: 'The archive decompresses to more data than is allowed for its size.' });
}

function damaged(cause: unknown): AppError {
  if (cause instanceof AppError) return cause;
  return appError('corrupt_document', { detail: 'The archive is damaged or cut off.', cause });
}
