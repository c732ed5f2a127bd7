import { createHash, randomUUID } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { z } from 'zod';
import { organizationOfBlobKey } from '#src/domain/documents/blob-keys.ts';

const OWNER_ONLY = 0o700;
const PROGRESS_INTERVAL_MS = 5_000;

export type CopiedOriginalFile = { key: string; sizeBytes: number; sha256: string };

const copySchema = z.object({ key: z.string(), sizeBytes: z.int().min(0), sha256: z.string() });

/** Copies of originals, each stored once for all backups of a folder. Blobs never change, so copies do not. */
export function createOriginalFileCopies(folder: string) {
  const objects = join(folder, 'originals');
  const incoming = join(folder, 'incoming');
  const pathOf = (key: string): string => {
    if (organizationOfBlobKey(key) === null) throw new Error(`${key} is not the blob key of an original.`);
    return join(objects, key);
  };

  return {
    pathOf,

    deletePartial: () => rm(incoming, { recursive: true, force: true }),

    async find(key: string): Promise<CopiedOriginalFile | null> {
      const found = await stat(pathOf(key)).catch(unlessMissing);
      if (found === undefined) return null;
      // Older blob keys end with a UUID instead of the content's hash, so the hash is computed from the copy.
      const sha256 = sha256Of(key) ?? (await hashFile(pathOf(key))).sha256;
      return { key, sizeBytes: found.size, sha256 };
    },

    /**
     * Copies an original to a temporary file, which is renamed once it is on disk. Returns null if the content does not
     * match the hash in `key`.
     */
    async add(key: string, content: Readable): Promise<CopiedOriginalFile | null> {
      const path = join(incoming, randomUUID());
      await mkdir(incoming, { recursive: true, mode: OWNER_ONLY });
      try {
        const measured = createMeter();
        await pipeline(content, measured.meter, createWriteStream(path, { flush: true, mode: 0o600 }));
        const { sizeBytes, sha256 } = measured.result();
        if ((sha256Of(key) ?? sha256) !== sha256) return null;
        await mkdir(dirname(pathOf(key)), { recursive: true, mode: OWNER_ONLY });
        await rename(path, pathOf(key));
        return { key, sizeBytes, sha256 };
      } finally {
        await rm(path, { force: true });
      }
    },

    open: async (key: string): Promise<Readable> => createReadStream(pathOf(key)),

    /**
     * Deletes copies that no backup lists.
     * @param lists paths of the backups' lists of originals, which are sorted by key
     * @returns the number of deleted copies
     */
    async deleteUnlisted(lists: readonly string[]): Promise<number> {
      const readers = lists.map((path) => createListReader(path));
      let deleted = 0;
      try {
        for (const organization of await namesIn(objects)) {
          for (const name of await namesIn(join(objects, organization))) {
            const key = `${organization}/${name}`;
            const isListed = await Promise.all(readers.map((reader) => reader.has(key)));
            if (isListed.includes(true)) continue;
            await rm(join(objects, key), { force: true });
            deleted += 1;
          }
        }
      } finally {
        for (const reader of readers) await reader.close();
      }
      return deleted;
    },

    /** Syncs the folders of the copies to disk, because otherwise a power loss could undo the renaming of a copy. */
    async sync(): Promise<void> {
      const organizations = (await namesIn(objects)).map((name) => join(objects, name));
      for (const path of [...organizations, objects, folder]) await flushPathToDisk(path);
    },
  };
}

export type OriginalFileCopies = ReturnType<typeof createOriginalFileCopies>;

export async function* readOriginalsList(path: string): AsyncGenerator<CopiedOriginalFile> {
  const lines = createInterface({ input: createReadStream(path), crlfDelay: Number.POSITIVE_INFINITY });
  for await (const line of lines) yield copySchema.parse(JSON.parse(line));
}

export async function hashFile(path: string): Promise<{ sizeBytes: number; sha256: string }> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  for await (const part of createReadStream(path)) {
    sizeBytes += part.length;
    hash.update(part);
  }
  return { sizeBytes, sha256: hash.digest('hex') };
}

export async function flushPathToDisk(path: string): Promise<void> {
  const handle = await open(path).catch(unlessMissing);
  await handle?.sync();
  await handle?.close();
}

function createMeter() {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  return {
    async *meter(content: AsyncIterable<Buffer>) {
      for await (const part of content) {
        sizeBytes += part.length;
        hash.update(part);
        yield part;
      }
    },
    result: () => ({ sizeBytes, sha256: hash.digest('hex') }),
  };
}

/**
 * Checks whether a backup's sorted list of originals has a key. The list is read only once, so `has` must be called
 * with ascending keys.
 */
function createListReader(path: string) {
  const copies = readOriginalsList(path);
  let current: CopiedOriginalFile | null = null;
  let isOver = false;
  return {
    async has(key: string): Promise<boolean> {
      while (!isOver && (current === null || current.key < key)) {
        const next = await copies.next();
        if (next.done) isOver = true;
        else current = next.value;
      }
      return !isOver && current?.key === key;
    },
    close: () => copies.return(undefined),
  };
}

function sha256Of(key: string): string | null {
  return /\/([0-9a-f]{64})$/.exec(key)?.[1] ?? null;
}

async function namesIn(folder: string): Promise<string[]> {
  return ((await readdir(folder).catch(unlessMissing)) ?? []).sort();
}

function unlessMissing(error: unknown): undefined {
  if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
}

export function createProgressPrinter(note: (line: string) => void, line: (count: number) => string) {
  let count = 0;
  let printedAtMs = performance.now();
  return {
    add(more: number): void {
      count += more;
      if (performance.now() - printedAtMs < PROGRESS_INTERVAL_MS) return;
      printedAtMs = performance.now();
      note(line(count));
    },
  };
}

export async function forEachInBatches<Item>(
  items: readonly Item[],
  batchSize: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  for (let start = 0; start < items.length; start += batchSize) {
    await Promise.all(items.slice(start, start + batchSize).map(work));
  }
}
