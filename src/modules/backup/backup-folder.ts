import { randomUUID } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { z } from 'zod';
import {
  createOriginalFileCopies,
  createProgressPrinter,
  flushPathToDisk,
  hashFile,
  readOriginalsList,
} from './original-copies.ts';

const FORMAT = 1;
const MANIFEST = 'manifest.json';

const count = z.int().min(0);
const writtenFile = z.object({ sizeBytes: count, sha256: z.string().regex(/^[0-9a-f]{64}$/) });

/** The manifest is written last, so a folder without one is not a complete backup. */
const manifestSchema = z.object({
  format: z.literal(FORMAT, 'is of another version of the service'),
  takenAt: z.iso.datetime(),
  completedAt: z.iso.datetime(),
  postgresMajor: count,
  migration: z.string(),
  vectorStore: z.enum(['pgvector', 'qdrant']),
  rows: z.record(z.string(), count),
  database: writtenFile,
  originals: writtenFile.extend({ count, bytes: count }),
  /** Number of originals that the backup lacks, because the blob store had already lost or damaged them. */
  missingOriginals: count,
});

export type BackupManifest = z.infer<typeof manifestSchema>;
export const backupFormatVersion = FORMAT;

export function backupFilePaths(backup: string): { manifest: string; database: string; originals: string } {
  return {
    manifest: join(backup, MANIFEST),
    database: join(backup, 'database.dump'),
    originals: join(backup, 'originals.ndjson'),
  };
}

async function readManifest(backup: string): Promise<BackupManifest | null> {
  const { manifest: path } = backupFilePaths(backup);
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && ['ENOENT', 'ENOTDIR'].includes(String(error.code))) return null;
    throw error;
  });
  if (text === null) return null;
  const read = manifestSchema.safeParse(parse(text));
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  throw new Error(
    `${path} is not a valid backup manifest: ${[issue?.path.join('.'), issue?.message].filter(Boolean).join(' ')}.`,
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const unfinishedPrefix = 'unfinished-';
const backupName = /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z$/;

export type FinishedBackup = { path: string; folder: string; manifest: BackupManifest };

/**
 * Reserves a folder for the backups of one installation, because each backup deletes copied originals that none of this
 * installation's backups lists. Throws if the folder belongs to another installation.
 */
export async function reserveBackupFolder(folder: string, installation: string): Promise<void> {
  const path = join(folder, 'installation');
  if ((await readOwner(path)) === null) {
    // The file with the installation's id is written under another name and renamed: a killed process must not leave an
    // empty file.
    const draft = join(folder, `${unfinishedPrefix}${randomUUID()}`);
    await writeFile(draft, installation, { mode: 0o600, flush: true });
    await rename(draft, path);
    await flushPathToDisk(folder);
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

export async function createUnfinishedBackup(folder: string): Promise<string> {
  const draft = join(folder, `${unfinishedPrefix}${randomUUID()}`);
  await mkdir(draft, { mode: 0o700 });
  return draft;
}

export async function finishBackup(draft: string, manifest: BackupManifest): Promise<string> {
  const file = await open(backupFilePaths(draft).manifest, 'wx', 0o600);
  await file.writeFile(`${JSON.stringify(manifest, null, 2)}\n`);
  await file.sync();
  await file.close();
  await flushPathToDisk(draft);
  const path = join(dirname(draft), manifest.takenAt.replaceAll(':', '-'));
  await rename(draft, path);
  await flushPathToDisk(dirname(draft));
  return path;
}

/** Deletes the remains of interrupted backups. No other backup may be writing to the folder. */
export async function deleteUnfinishedBackups(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (name.startsWith(unfinishedPrefix)) await rm(join(folder, name), { recursive: true, force: true });
  }
}

export async function listBackups(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => []);
  return names
    .filter((name) => backupName.test(name))
    .sort()
    .map((name) => join(folder, name));
}

/** Renames a backup before deleting it, so that an interrupted deletion leaves no damaged backup. */
export async function deleteBackup(path: string): Promise<void> {
  const draft = join(dirname(path), `${unfinishedPrefix}${randomUUID()}`);
  await rename(path, draft);
  await rm(draft, { recursive: true, force: true });
}

/** Finds the backup in the folder `from`, or the newest one if `from` is a folder of backups. */
export async function findBackup(from: string): Promise<FinishedBackup> {
  for (const path of [resolve(from), (await listBackups(resolve(from))).at(-1)]) {
    const manifest = path === undefined ? null : await readManifest(path);
    if (path !== undefined && manifest !== null) return { path, folder: dirname(path), manifest };
  }
  throw new Error(`There is no complete backup in ${resolve(from)}.`);
}

const MAX_FAULTS_LISTED = 20;

export async function findBackupDamage({ path, folder, manifest }: FinishedBackup, note: (line: string) => void) {
  const files = backupFilePaths(path);
  const faults: string[] = [];

  async function compare(file: string, written: { sizeBytes: number; sha256: string }): Promise<boolean> {
    const found = await hashFile(file).catch((error: unknown) => {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
      throw error;
    });
    if (found !== null && found.sizeBytes === written.sizeBytes && found.sha256 === written.sha256) return true;
    const what = found === null ? 'is missing' : `is damaged (${found.sizeBytes} of ${written.sizeBytes} bytes)`;
    if (faults.length < MAX_FAULTS_LISTED) faults.push(`${file} ${what}.`);
    return false;
  }

  await compare(files.database, manifest.database);
  if (!(await compare(files.originals, manifest.originals))) return faults;
  const copies = createOriginalFileCopies(folder);
  const progress = createProgressPrinter(
    note,
    (count) => `Originals: ${count} of ${manifest.originals.count} checked …`,
  );
  let damaged = 0;
  for await (const copy of readOriginalsList(files.originals)) {
    if (!(await compare(copies.pathOf(copy.key), copy))) damaged += 1;
    progress.add(1);
  }
  if (damaged > 0)
    faults.push(`${damaged} of ${manifest.originals.count} originals of ${basename(path)} are missing or damaged.`);
  return faults;
}
