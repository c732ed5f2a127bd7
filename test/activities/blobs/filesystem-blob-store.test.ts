import { execFile, spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { createFilesystemBlobStore } from '#src/adapters/blob/filesystem-blob-store.ts';
import { itKeepsBlobs } from '#test/activities/blobs/blob-store.contract.ts';
import { putBlob } from '#test/support/put-blob.ts';
import { skip } from '#test/support/skip.ts';

describe('the filesystem blob store', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'blobs-'));
  });
  afterEach(() => rm(directory, { recursive: true }));

  const incoming = () => join(directory, 'incoming');
  const leftovers = () => readdir(incoming()).catch(() => []);
  const open = () => createFilesystemBlobStore({ directory });

  itKeepsBlobs(async () => ({ store: open(), leftovers }));

  it('does not list empty directories as objects, and returns null when asked for a signed URL', async () => {
    await mkdir(join(directory, 'objects', 'empty'), { recursive: true });
    expect(await open().list({ after: null, limit: 10 })).deep.equal([]);
    const options = { fileName: 'a.txt', mediaType: 'text/plain', expiresInSeconds: 60 };
    expect(await open().signedUrl('org/one', options)).equal(null);
  });

  it('deletes the files that crashed uploads left, once they are two hours old', async () => {
    await putBlob(open(), 'org/one', 'kept');
    for (const name of ['stray', 'fresh']) await writeFile(join(incoming(), name), 'half');
    const hoursAgo = new Date(Date.now() - 2 * 60 * 60_000);
    for (const path of [join(incoming(), 'stray'), join(directory, 'objects', 'org', 'one')]) {
      await utimes(path, hoursAgo, hoursAgo);
    }
    await open().deleteStrays();
    expect(await leftovers()).deep.equal(['fresh']);
    expect(await open().exists('org/one')).equal(true);
  });

  describe('on a full disk (F17)', () => {
    const unshare = ['--user', '--map-root-user', '--mount'];
    before(function () {
      const { status } = spawnSync('unshare', [...unshare, 'mount', '-t', 'tmpfs', 'none', tmpdir()]);
      if (status !== 0) skip(this, 'no user namespaces');
    });

    /** Stores files in a process for which the directory is a small disk. @returns the end of each, and what is stored */
    async function storeOn(disk: string, fileBytes: number, files: number) {
      const source = `
        import { readdir } from 'node:fs/promises';
        import { Readable } from 'node:stream';
        import { createFilesystemBlobStore } from '#src/adapters/blob/filesystem-blob-store.ts';
        const store = createFilesystemBlobStore({ directory: '${directory}' });
        const ends = [];
        for (let file = 0; file < ${files}; file += 1) {
          const pieces = Array.from({ length: 10 }, () => Buffer.alloc(${fileBytes} / 10));
          try {
            const { stagingKey } = await store.stage({ content: Readable.from(pieces), limitBytes: 1e9 });
            await store.promote(stagingKey, 'org-' + file + '/x').catch(async (error) => {
              await store.unstage(stagingKey);
              throw error;
            });
            ends.push('stored');
          } catch (error) {
            ends.push(error.code + ' ' + error.message + ' ' + error.retryAfterSeconds);
          }
        }
        const incoming = await readdir('${incoming()}');
        const objects = await store.list({ after: null, limit: 100 });
        console.log(JSON.stringify({ ends, incoming, objects: objects.length }));`;
      const script = `mount -t tmpfs -o ${disk} none "$1" && exec "$2" --input-type=module --eval "$3"`;
      const args = [...unshare, 'sh', '-c', script, 'sh', directory, process.execPath, source];
      return JSON.parse((await promisify(execFile)('unshare', args)).stdout);
    }

    for (const [end, disk, fileBytes, files, leastStored] of [
      ['fills up during an upload', 'size=1m', 400_000, 4, 2],
      // Inodes: the directory itself, incoming, objects, and two for each object, its directory and its file.
      ['has no free inode', 'size=1m,nr_inodes=7', 1_000, 3, 1],
    ] as const) {
      it(`throws service_unavailable when the disk ${end}, and deletes what it wrote of the upload`, async () => {
        const { ends, incoming, objects } = await storeOn(disk, fileBytes, files);
        expect(ends.slice(0, leastStored)).deep.equal(new Array(leastStored).fill('stored'));
        expect(ends.at(-1)).equal('service_unavailable The disk for files is full. 60');
        expect(new Set(ends)).property('size', 2);
        expect(objects).equal(ends.filter((each: string) => each === 'stored').length);
        expect(incoming).deep.equal([]);
      });
    }
  });
});
