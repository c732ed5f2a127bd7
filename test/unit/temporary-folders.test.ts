import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { expect } from 'chai';
import { deleteStaleTemporaryFolders, makeTemporaryFolder } from '#src/temporary-folders.ts';

describe('temporary folders', () => {
  let tempDir: string;
  beforeEach(async () => {
    tempDir = await mkdtemp(join(tmpdir(), 'temporary-'));
  });
  afterEach(() => rm(tempDir, { recursive: true }));

  it('are deleted after a day, but no other files are', async () => {
    const [old, used] = [await makeTemporaryFolder(tempDir, 'print'), await makeTemporaryFolder(tempDir, 'print')];
    await writeFile(join(old, 'document.odt'), 'a copy');
    const ofOthers = join(tempDir, 'print-abcdef');
    await mkdir(ofOthers);
    const longAgo = new Date(Date.now() - 25 * 60 * 60_000);
    for (const folder of [old, ofOthers]) await utimes(folder, longAgo, longAgo);
    await deleteStaleTemporaryFolders(tempDir);
    expect((await readdir(tempDir)).sort()).deep.equal([basename(used), basename(ofOthers)].sort());
  });
});
