import { randomUUID } from 'node:crypto';
import { access, mkdir, open, opendir, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { appError } from '#src/errors.ts';
import type { BlobStore, StoredBlob } from '#src/ports/blob-store.ts';
import { hasErrorCode, requireValidBlobKey, toStorageError, writeUploadFile } from './upload-file.ts';

/**
 * A file in `incoming` that was not written to for this long was left by a crash: an upload that receives no data for a
 * minute is aborted.
 */
const STRAY_AFTER_MS = 60 * 60_000;

const ENTRIES_PER_READ = 1_000;

/**
 * Stores originals as files under `directory`. A file is written to `incoming`, flushed to the disk and only then
 * renamed to its key: a crash leaves a file in `incoming`, which `deleteStrays` deletes, and never half an object.
 */
export function createFilesystemBlobStore(options: { directory: string }): BlobStore {
  const objects = join(options.directory, 'objects');
  const incoming = join(options.directory, 'incoming');

  const pathOf = (key: string): string => join(objects, requireValidBlobKey(key));
  const stagedPathOf = (stagingKey: string): string => join(incoming, requireValidBlobKey(stagingKey));

  return {
    async stage(input) {
      const stagingKey = randomUUID();
      const path = stagedPathOf(stagingKey);
      try {
        await mkdir(incoming, { recursive: true });
        return { stagingKey, ...(await writeUploadFile(path, input, { flush: true })) };
      } catch (error) {
        await rm(path, { force: true });
        throw toStorageError(error);
      }
    },

    async promote(stagingKey, key) {
      const target = pathOf(key);
      try {
        await mkdir(dirname(target), { recursive: true });
        await rename(stagedPathOf(stagingKey), target).catch(async (error: unknown) => {
          // A retry finds the file at its target, because an earlier attempt moved it before it was interrupted.
          if (!hasErrorCode(error, 'ENOENT') || !(await isThere(target))) throw error;
        });
        await syncDirectories(dirname(target), options.directory);
      } catch (error) {
        throw toStorageError(error);
      }
    },

    async unstage(stagingKey) {
      await rm(stagedPathOf(stagingKey), { force: true });
    },

    async read(key, range) {
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
        // A concurrent deletion may have removed the object since its name was read.
        const file = await stat(join(objects, key)).catch(unlessMissing);
        if (file !== undefined) page.push({ key, sizeBytes: file.size, storedAt: file.mtime });
        if (page.length >= limit) break;
      }
      return page;
    },

    async deleteStrays() {
      const names = await readdir(incoming).catch(unlessMissing);
      let deleted = 0;
      for (const path of (names ?? []).map((name) => join(incoming, name))) {
        const file = await stat(path).catch(unlessMissing);
        if (file === undefined || Date.now() - file.mtimeMs <= STRAY_AFTER_MS) continue;
        await rm(path, { force: true });
        deleted += 1;
      }
      return deleted;
    },

    signedUrl: async () => null,
  };
}

/** Yields the blob keys after a key, ordered by path segments, with at most `2 * namesAtOnce` file names in memory. */
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

/**
 * Flushes the directory `from` and its parents up to `upTo`: after a crash, a file or directory exists only if its
 * parent was flushed.
 */
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
    throw hasErrorCode(error, 'ENOENT')
      ? appError('blob_missing', { cause: new Error(`blob ${key} does not exist`) })
      : error;
  };
}

async function isThere(path: string): Promise<boolean> {
  return (await stat(path).catch(unlessMissing)) !== undefined;
}

function unlessMissing(error: unknown): undefined {
  if (!hasErrorCode(error, 'ENOENT')) throw error;
}
