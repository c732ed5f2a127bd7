import { type FileHandle, open, rename, stat, truncate } from 'node:fs/promises';

/** A download that may continue over several runs and gets its final name only when it is complete. */
export type PartialFile = ReturnType<typeof createPartialFile>;

export function createPartialFile(target: string) {
  const path = `${target}.partial`;
  return {
    path,
    async size(): Promise<number> {
      return (await stat(path).catch(() => ({ size: 0 }))).size;
    },
    async cutTo(sizeBytes: number): Promise<void> {
      await (await open(path, 'a')).close();
      await truncate(path, sizeBytes);
    },
    async append(chunks: AsyncIterable<Uint8Array>): Promise<void> {
      const file = await open(path, 'a');
      try {
        for await (const chunk of chunks) await writeAll(file, chunk);
        await file.sync();
      } finally {
        await file.close();
      }
    },
    async complete(): Promise<void> {
      await rename(path, target);
    },
  };
}

async function writeAll(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let written = 0; written < chunk.length; ) {
    written += (await file.write(chunk, written)).bytesWritten;
  }
}
