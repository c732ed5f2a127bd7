import { basename } from 'node:path';
import { placeOf } from './backup-manifest.ts';
import type { FoundBackup } from './backup-places.ts';
import { createOriginalCopies, measureFile, readCopies } from './original-copies.ts';
import { createProgress } from './progress.ts';

const FAULTS_TOLD = 20;

/** Reads every byte of a backup. @returns what is not as it was written, in words */
export async function checkBackup({ path, folder, manifest }: FoundBackup, note: (line: string) => void) {
  const place = placeOf(path);
  const faults: string[] = [];

  async function compare(file: string, written: { sizeBytes: number; sha256: string }): Promise<boolean> {
    const found = await measureFile(file).catch((error: unknown) => {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
      throw error;
    });
    if (found !== null && found.sizeBytes === written.sizeBytes && found.sha256 === written.sha256) return true;
    const what = found === null ? 'is missing' : `is damaged (${found.sizeBytes} of ${written.sizeBytes} bytes)`;
    if (faults.length < FAULTS_TOLD) faults.push(`${file} ${what}.`);
    return false;
  }

  await compare(place.database, manifest.database);
  // A list that is not the one that was written says nothing about the originals.
  if (!(await compare(place.originals, manifest.originals))) return faults;
  const copies = createOriginalCopies(folder);
  const progress = createProgress(note, (count) => `Originals: ${count} of ${manifest.originals.count} checked …`);
  let damaged = 0;
  for await (const copy of readCopies(place.originals)) {
    if (!(await compare(copies.pathOf(copy.key), copy))) damaged += 1;
    progress.add(1);
  }
  if (damaged > 0) faults.push(`${damaged} of ${manifest.originals.count} originals of ${basename(path)} are wrong.`);
  return faults;
}
