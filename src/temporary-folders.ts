import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';

const prefix = 'acs-';
const ownName = /^acs-[a-z]+-[A-Za-z0-9]{6}$/;

/** Age above which no running process can still be using a temporary folder. */
const strayAfterMs = 24 * 60 * 60_000;

/** Creates a temporary folder for copies of users' files. The caller must delete it. */
export function makeTemporaryFolder(tempDir: string, use: string): Promise<string> {
  return mkdtemp(join(tempDir, `${prefix}${use}-`));
}

export async function deleteStaleTemporaryFolders(tempDir: string): Promise<void> {
  for (const name of await readdir(tempDir)) {
    if (!ownName.test(name)) continue;
    const path = join(tempDir, name);
    const found = await stat(path).catch(() => undefined);
    if (found === undefined || found.uid !== process.getuid?.()) continue;
    if (Date.now() - found.mtimeMs > strayAfterMs) await rm(path, { recursive: true, force: true });
  }
}
