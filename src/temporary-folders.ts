import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';

const prefix = 'acs-';
const ownName = /^acs-[a-z]+-[A-Za-z0-9]{6}$/;

/** Longer than any step takes. */
const strayAfterMs = 24 * 60 * 60_000;

/** Makes a folder for copies of what somebody keeps with us; whoever makes it deletes it. */
export function makeTemporaryFolder(tempDir: string, use: string): Promise<string> {
  return mkdtemp(join(tempDir, `${prefix}${use}-`));
}

/** Deletes the folders of processes that were killed before they could. */
export async function deleteStrayFolders(tempDir: string): Promise<void> {
  for (const name of await readdir(tempDir)) {
    if (!ownName.test(name)) continue;
    const path = join(tempDir, name);
    const found = await stat(path).catch(() => undefined);
    if (found === undefined || found.uid !== process.getuid?.()) continue;
    if (Date.now() - found.mtimeMs > strayAfterMs) await rm(path, { recursive: true, force: true });
  }
}
