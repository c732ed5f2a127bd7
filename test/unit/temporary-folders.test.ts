import { mkdir, readdir, utimes, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { expect } from 'chai';
import { deleteStaleTemporaryFolders, makeTemporaryFolder } from '#src/temporary-folders.ts';
import { useTemporaryFolder } from '#test/support/temporary-folder.ts';

describe('temporary folders', () => {
  const pathOf = useTemporaryFolder();

  it('that the service made are deleted when they are a day old, and all other folders stay', async () => {
    const tempDir = pathOf();
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
