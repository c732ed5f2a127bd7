import { randomUUID } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { type BackupManifest, placeOf, readManifest } from './backup-manifest.ts';
import { syncPath } from './original-copies.ts';

const unfinished = 'unfinished-';
const finished = /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z$/;

/** A complete backup, and the folder in which it shares its originals with others. */
export type FoundBackup = { path: string; folder: string; manifest: BackupManifest };

/**
 * A folder is of one installation: another's backups, and what it is about to write, would be deleted by this one's.
 * Throws, in words for the operator, for that of another.
 */
export async function claimFolder(folder: string, installation: string): Promise<void> {
  const path = join(folder, 'installation');
  if ((await readOwner(path)) === null) {
    // It gets its name with its content: one that is killed in between leaves no folder that is nobody's.
    const draft = join(folder, `${unfinished}${randomUUID()}`);
    await writeFile(draft, installation, { mode: 0o600, flush: true });
    await rename(draft, path);
    await syncPath(folder);
  }
  const owner = await readOwner(path);
  if (owner !== installation) {
    throw new Error(`${folder} has the backups of another installation (of ${owner}): choose another folder.`);
  }
}

async function readOwner(path: string): Promise<string | null> {
  return readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return null;
  });
}

/** A folder in which a backup is written; it gets its name when it is complete. */
export async function beginBackup(folder: string): Promise<string> {
  const draft = join(folder, `${unfinished}${randomUUID()}`);
  await mkdir(draft, { mode: 0o700 });
  return draft;
}

/** @returns its path */
export async function finishBackup(draft: string, manifest: BackupManifest): Promise<string> {
  const file = await open(placeOf(draft).manifest, 'wx', 0o600);
  await file.writeFile(`${JSON.stringify(manifest, null, 2)}\n`);
  await file.sync();
  await file.close();
  await syncPath(draft);
  const path = join(dirname(draft), manifest.takenAt.replaceAll(':', '-'));
  await rename(draft, path);
  await syncPath(dirname(draft));
  return path;
}

/** What killed backups left. Another one of the same folder must not be under way. */
export async function deleteUnfinished(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (name.startsWith(unfinished)) await rm(join(folder, name), { recursive: true, force: true });
  }
}

/** Complete ones, oldest first. */
export async function listBackups(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => []);
  return names
    .filter((name) => finished.test(name))
    .sort()
    .map((name) => join(folder, name));
}

/** From its first moment on it is none any more. */
export async function deleteBackup(path: string): Promise<void> {
  const draft = join(dirname(path), `${unfinished}${randomUUID()}`);
  await rename(path, draft);
  await rm(draft, { recursive: true, force: true });
}

/** @param from one backup, or a folder of backups, of which the newest is meant */
export async function findBackup(from: string): Promise<FoundBackup> {
  for (const path of [resolve(from), (await listBackups(resolve(from))).at(-1)]) {
    const manifest = path === undefined ? null : await readManifest(path);
    if (path !== undefined && manifest !== null) return { path, folder: dirname(path), manifest };
  }
  throw new Error(`There is no complete backup in ${resolve(from)}.`);
}
