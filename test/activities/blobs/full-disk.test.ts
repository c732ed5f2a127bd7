import { expect } from 'chai';
import { hasSmallDisks, onSmallDisk } from '#test/support/on-small-disk.ts';
import { skip } from '#test/support/skip.ts';

const MODULE = new URL('../../../src/adapters/blob/filesystem-blob-store.ts', import.meta.url).href;

describe('F17: the filesystem blob store on a full disk', () => {
  before(function () {
    if (!hasSmallDisks()) skip(this, 'no user namespaces');
  });

  /** Stores files until the disk is full; returns the outcome of each and what is stored then. */
  const storeOn = async (options: string, fileBytes: number, files: number) =>
    JSON.parse(
      await onSmallDisk(
        options,
        (directory) => `
          import { readdir } from 'node:fs/promises';
          import { Readable } from 'node:stream';
          import { createFilesystemBlobStore } from '${MODULE}';
          const store = createFilesystemBlobStore({ directory: '${directory}' });
          const ends = [];
          for (let file = 0; file < ${files}; file += 1) {
            const key = 'org-' + file + '/x';
            const pieces = Array.from({ length: 10 }, () => Buffer.alloc(${fileBytes} / 10));
            try {
              const { stagingKey } = await store.stage({ content: Readable.from(pieces), limitBytes: 1e9 });
              await store.promote(stagingKey, key).catch(async (error) => {
                await store.unstage(stagingKey);
                throw error;
              });
              ends.push('stored');
            } catch (error) {
              ends.push(error.code + ' ' + error.message + ' ' + error.retryAfterSeconds);
            }
          }
          const incoming = await readdir('${directory}/incoming');
          const objects = await store.list({ after: null, limit: 100 });
          console.log(JSON.stringify({ ends, incoming, objects: objects.length }));`,
      ),
    );

  it('throws service_unavailable when the disk fills up during an upload, and leaves nothing of it', async () => {
    const { ends, incoming, objects } = await storeOn('size=1m', 400_000, 4);
    expect(ends.slice(0, 2)).deep.equal(['stored', 'stored']);
    for (const end of ends.slice(2)) expect(end).equal('service_unavailable The disk for files is full. 60');
    expect({ incoming, objects }).deep.equal({ incoming: [], objects: 2 });
  });

  it('throws service_unavailable when the disk has no free inode, and leaves nothing of the upload', async () => {
    // Inodes: the directory itself, incoming, objects, and two for each object, its directory and its file.
    const { ends, incoming, objects } = await storeOn('size=1m,nr_inodes=7', 1_000, 3);
    expect(ends.slice(0, 1)).deep.equal(['stored']);
    for (const end of ends.slice(2)) expect(end).equal('service_unavailable The disk for files is full. 60');
    expect(incoming).deep.equal([]);
    expect(objects).equal(ends.filter((end: string) => end === 'stored').length);
  });
});
