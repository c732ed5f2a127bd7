import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { createFilesystemBlobStore } from '#src/adapters/blob/filesystem-blob-store.ts';
import { itKeepsBlobs } from '#test/support/blob-store-contract.ts';
import { putBlob } from '#test/support/put-blob.ts';

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

  it('lists no directories', async () => {
    await mkdir(join(directory, 'objects', 'empty'), { recursive: true });
    expect(await open().list({ after: null, limit: 10 })).deep.equal([]);
  });

  it('deletes the remains of crashed uploads', async () => {
    await putBlob(open(), 'org/one', 'kept');
    for (const name of ['stray', 'fresh']) await writeFile(join(incoming(), name), 'half');
    const hoursAgo = new Date(Date.now() - 2 * 60 * 60_000);
    await utimes(join(incoming(), 'stray'), hoursAgo, hoursAgo);
    await utimes(join(directory, 'objects', 'org', 'one'), hoursAgo, hoursAgo);

    await open().deleteStrays();
    expect(await leftovers()).deep.equal(['fresh']);
    expect(await open().exists('org/one')).equal(true);
  });

  it('returns no signed URL', async () => {
    const options = { fileName: 'a.txt', mediaType: 'text/plain', expiresInSeconds: 60 };
    expect(await open().signedUrl('org/one', options)).equal(null);
  });
});
