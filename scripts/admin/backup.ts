import { mkdir } from 'node:fs/promises';
import { basename, resolve } from 'node:path';
import type { BackupManifest } from '#src/modules/backup/backup-manifest.ts';
import { type Command, readFlags } from './command.ts';

const NOT_IN_IT = [
  'NOT in it: the keys that open stored credentials (ENCRYPTION_KEYS; of npm start the folder secrets of DATA_DIR).',
  'Keep them elsewhere. Without them the credentials of connections are lost.',
];

/** What is written is for its owner alone: it has all documents, and the hashes of all passwords. */
export const backup: Command = {
  takes: '--into <folder> [--keep <number>] | --verify <folder>',
  does: 'copies the database and the originals into a folder of backups, while all of it is in use; with --keep deletes the oldest beyond so many; --verify reads a backup again and says what is damaged',
  examples: [
    ['--into /backups/acs', 'a new backup; originals that are there already are not copied again'],
    ['--into /backups/acs --keep 7', 'and the oldest beyond seven go'],
    ['--verify /backups/acs', 'checks the newest; name one of its folders for another'],
  ],
  read: (args) => {
    const options = { into: { type: 'string' }, keep: { type: 'string' }, verify: { type: 'string' } } as const;
    const read = readFlags(args, options);
    if ('wrong' in read) return read;
    const { into, keep, verify } = read.values;
    if (read.positionals.length > 0) return { wrong: `"${read.positionals.join(' ')}" is not understood` };
    if (into && verify) return { wrong: 'Either --into or --verify' };
    if (keep !== undefined && (!into || !/^[1-9]\d{0,3}$/.test(keep))) {
      return { wrong: '--keep goes with --into and needs a number from 1 on' };
    }
    if (into) return write(resolve(into), keep === undefined ? null : Number(keep));
    if (verify) return check(verify);
    return { wrong: '--into needs a folder' };
  },
};

function write(folder: string, keep: number | null): ReturnType<Command['read']> {
  return async ({ backups }, { print, note }) => {
    process.umask(0o077);
    await mkdir(folder, { recursive: true });
    const { path, manifest } = await backups.backUp({ folder, keep, note });
    for (const line of [`Backed up to ${path}.`, ...contentOf(manifest), '', ...NOT_IN_IT]) print(line);
    if (manifest.missingOriginals === 0) return true;
    note(`${manifest.missingOriginals} originals are missing in the store itself, or damaged: all else is backed up.`);
    return false;
  };
}

function check(folder: string): ReturnType<Command['read']> {
  return async ({ backups }, { print, note }) => {
    const { path, manifest, faults } = await backups.check(folder, note);
    for (const fault of faults) print(fault);
    if (faults.length > 0) {
      print(`${basename(path)} is damaged. Delete what is, and back up again: missing originals are copied anew.`);
      return false;
    }
    for (const line of [`${path} is as it was written.`, ...contentOf(manifest)]) print(line);
    return true;
  };
}

export function contentOf({ takenAt, rows, database, originals, migration }: BackupManifest): string[] {
  const all = Object.values(rows).reduce((sum, count) => sum + count, 0);
  const size = (bytes: number) =>
    bytes < 1_000_000 ? `${Math.ceil(bytes / 1_000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
  return [
    `  state of   ${takenAt}, migration ${migration.replace(/\.ts$/, '')}`,
    `  database   ${all} rows in ${Object.keys(rows).length} tables, ${size(database.sizeBytes)}`,
    `  originals  ${originals.count}, ${size(originals.bytes)}`,
  ];
}
