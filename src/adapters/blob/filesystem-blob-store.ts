import { randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { access, mkdir, open, opendir, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { appError } from '#src/errors.ts';
import type { BlobStore, StoredBlob } from '#src/ports/blob-store.ts';
import { requireBlobKey } from './blob-key.ts';
import { createUploadMeter } from './upload-meter.ts';

/** An upload that receives nothing for a minute is ended: a file that was not written to for so long belongs to none. */
const strayAfterMs = 60 * 60_000;

const ENTRIES_PER_READ = 1_000;

/**
 * Originals as files under `directory`. A file is written beside the others, flushed to the disk and only then renamed
 * to its key: a crash leaves a stray temporary file, for `deleteStrays`, and never half an object.
 */
export function createFilesystemBlobStore(options: { directory: string }): BlobStore {
  const objects = join(options.directory, 'objects');
  const incoming = join(options.directory, 'incoming');

  const pathOf = (key: string): string => join(objects, requireBlobKey(key));
  const stagedPathOf = (stagingKey: string): string => join(incoming, requireBlobKey(stagingKey));

  return {
    async stage({ content, limitBytes }) {
      const stagingKey = randomUUID();
      const path = stagedPathOf(stagingKey);
      const meter = createUploadMeter(limitBytes);
      try {
        await mkdir(incoming, { recursive: true });
        await pipeline(meter.measure(content), createWriteStream(path, { flags: 'wx', flush: true }));
        return { stagingKey, ...meter.result() };
      } catch (error) {
        await rm(path, { force: true });
        throw unlessFull(error);
      }
    },

    async promote(stagingKey, key) {
      const target = pathOf(key);
      try {
        await mkdir(dirname(target), { recursive: true });
        await rename(stagedPathOf(stagingKey), target).catch(async (error: unknown) => {
          // The second time, its content is there already.
          if (!hasCode(error, 'ENOENT') || !(await isThere(target))) throw error;
        });
        await syncDirectories(dirname(target), options.directory);
      } catch (error) {
        throw unlessFull(error);
      }
    },

    async unstage(stagingKey) {
      await rm(stagedPathOf(stagingKey), { force: true });
    },

    async read(key, range) {
      // Opened before it is returned, so that a missing object is an error of this call and not of the stream.
      const file = await open(pathOf(key)).catch(missing(key));
      return file.createReadStream(range);
    },

    async withLocalFile(key, use) {
      const path = pathOf(key);
      await access(path).catch(missing(key));
      return use(path);
    },

    async exists(key) {
      return isThere(pathOf(key));
    },

    async delete(key) {
      await rm(pathOf(key), { force: true });
    },

    async list({ after, limit }) {
      const page: StoredBlob[] = [];
      for await (const key of keysAfter(objects, after?.split('/') ?? [], limit)) {
        // Whoever deletes it meanwhile is right.
        const file = await stat(join(objects, key)).catch(unlessMissing);
        if (file !== undefined) page.push({ key, sizeBytes: file.size, storedAt: file.mtime });
        if (page.length >= limit) break;
      }
      return page;
    },

    async deleteStrays() {
      const names = await readdir(incoming).catch(unlessMissing);
      for (const path of (names ?? []).map((name) => join(incoming, name))) {
        // An upload that ends meanwhile takes its file away.
        const file = await stat(path).catch(unlessMissing);
        if (file !== undefined && Date.now() - file.mtimeMs > strayAfterMs) await rm(path, { force: true });
      }
    },

    signedUrl: async () => null,
  };
}

/** Keys in the order of their parts, from the one after `parts` on; at most `namesAtOnce` of a directory in memory. */
async function* keysAfter(
  directory: string,
  [first = '', ...rest]: readonly string[],
  namesAtOnce: number,
): AsyncGenerator<string> {
  if (rest.length > 0) {
    for await (const key of keysAfter(join(directory, first), rest, namesAtOnce)) yield `${first}/${key}`;
  }
  for (let last = first; ; ) {
    const names = await firstNamesAfter(directory, last, namesAtOnce);
    for (const { name, isDirectory } of names) {
      if (!isDirectory) yield name;
      else for await (const key of keysAfter(join(directory, name), [], namesAtOnce)) yield `${name}/${key}`;
      last = name;
    }
    if (names.length < namesAtOnce) return;
  }
}

type Name = { name: string; isDirectory: boolean };

async function firstNamesAfter(directory: string, after: string, count: number): Promise<Name[]> {
  let names: Name[] = [];
  const keepFirst = () => {
    names = names.sort((a, b) => (a.name < b.name ? -1 : 1)).slice(0, count);
  };
  const entries = await opendir(directory, { bufferSize: ENTRIES_PER_READ }).catch(unlessMissing);
  for await (const entry of entries ?? []) {
    if (entry.name > after) names.push({ name: entry.name, isDirectory: entry.isDirectory() });
    if (names.length === 2 * count) keepFirst();
  }
  keepFirst();
  return names;
}

/** A name is durable only when the directory that holds it is, and so is the name of a directory that is new. */
async function syncDirectories(from: string, upTo: string): Promise<void> {
  for (let path = from; path.length >= upTo.length; path = dirname(path)) {
    const directory = await open(path);
    try {
      await directory.sync();
    } finally {
      await directory.close();
    }
  }
}

function missing(key: string): (error: unknown) => never {
  return (error) => {
    throw hasCode(error, 'ENOENT')
      ? appError('blob_missing', { cause: new Error(`there is no object ${key}`) })
      : error;
  };
}

async function isThere(path: string): Promise<boolean> {
  return (await stat(path).catch(unlessMissing)) !== undefined;
}

/** A disk that is full is emptied again: asking later may succeed. */
function unlessFull(error: unknown): unknown {
  if (!hasCode(error, 'ENOSPC', 'EDQUOT')) return error;
  return appError('service_unavailable', { detail: 'The storage is full.', retryAfterSeconds: 60, cause: error });
}

function unlessMissing(error: unknown): undefined {
  if (!hasCode(error, 'ENOENT')) throw error;
}

function hasCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code));
}
