import { mkdir } from 'node:fs/promises';
import { basename, resolve } from 'node:path';
import type { BackupManifest } from '#src/modules/backup/backup-folder.ts';
import type { RestoreReport } from '#src/modules/backup/restore.service.ts';
import { type Command, type CommandOutput, readFlags, unexpectedArguments } from './command.ts';
import { withEmbeddedStores } from './embedded-stores.ts';

const NOT_INCLUDED = [
  'NOT included: the keys that decrypt stored credentials (ENCRYPTION_KEYS; for npm start the folder secrets in DATA_DIR).',
  'Keep them elsewhere. Without them the credentials of connections are lost.',
];

/** Only the owner can read a backup, because it contains all documents and all password hashes. */
export const backupCommand: Command = {
  usage: '--into <folder> [--keep <number>] | --verify <folder>',
  description:
    'copies the database and the originals into a folder of backups while the service is running; --keep deletes the oldest backups beyond a number; --verify reads a backup again and reports damaged files',
  examples: [
    ['--into /backups/acs', 'a new backup; originals of earlier backups are not copied again'],
    ['--into /backups/acs --keep 7', 'also deletes the oldest backups beyond seven'],
    ['--verify /backups/acs', 'checks the newest backup; name one of the subfolders to check another'],
  ],
  read: (args) => {
    const options = { into: { type: 'string' }, keep: { type: 'string' }, verify: { type: 'string' } } as const;
    const read = readFlags(args, options);
    if ('wrong' in read) return read;
    const { into, keep, verify } = read.values;
    if (read.positionals.length > 0) return unexpectedArguments(read.positionals);
    if (into && verify) return { wrong: '--into and --verify cannot be combined' };
    if (keep !== undefined && (!into || !/^[1-9]\d{0,3}$/.test(keep))) {
      return { wrong: '--keep needs --into and a number of at least 1' };
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
    for (const line of [`Backed up to ${path}.`, ...contentOf(manifest), '', ...NOT_INCLUDED]) print(line);
    if (manifest.missingOriginals === 0) return true;
    note(`${manifest.missingOriginals} originals are missing or damaged in the store. Everything else is backed up.`);
    return false;
  };
}

function check(folder: string): ReturnType<Command['read']> {
  return async ({ backups }, { print, note }) => {
    const { path, manifest, faults } = await backups.check(folder, note);
    for (const fault of faults) print(fault);
    if (faults.length > 0) {
      print(
        `${basename(path)} is damaged. Delete the damaged files and back up again: missing originals are copied again.`,
      );
      return false;
    }
    for (const line of [`${path} is complete and undamaged.`, ...contentOf(manifest)]) print(line);
    return true;
  };
}

function contentOf({ takenAt, rows, database, originals, migration }: BackupManifest): string[] {
  const all = Object.values(rows).reduce((sum, count) => sum + count, 0);
  const size = (bytes: number) =>
    bytes < 1_000_000 ? `${Math.ceil(bytes / 1_000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
  return [
    `  state of   ${takenAt}, migration ${migration.replace(/\.ts$/, '')}`,
    `  database   ${all} rows in ${Object.keys(rows).length} tables, ${size(database.sizeBytes)}`,
    `  originals  ${originals.count}, ${size(originals.bytes)}`,
  ];
}

export const restoreCommand: Command = {
  usage: '--from <folder>',
  description:
    'restores an installation from a backup, or from the newest backup of a folder; requires an empty database, and that API and workers are stopped. If interrupted, repeat the same command to continue',
  examples: [
    ['--from /backups/acs', 'the newest backup'],
    ['--from /backups/acs/2026-11-23T02-00-00.000Z', 'this backup'],
  ],
  read: (args) => {
    const read = readFlags(args, { from: { type: 'string' } });
    if ('wrong' in read) return read;
    const { from } = read.values;
    if (read.positionals.length > 0) return unexpectedArguments(read.positionals);
    if (!from) return { wrong: '--from needs a backup or a folder of backups' };
    return ({ restores }, { print, note }) =>
      withEmbeddedStores(process.env, note, async () => printReport(await restores.restore(from, note), print));
  },
};

function printReport(report: RestoreReport, print: CommandOutput['print']): boolean {
  const { path, manifest, vectors, unreadableCredentials } = report;
  for (const line of [`Restored from ${path}.`, ...contentOf(manifest)]) print(line);
  if (vectors.rebuilt > 0)
    print(`  vectors    of ${vectors.rebuilt} documents, written from embeddings in the database`);
  const lost = [
    ...(vectors.incomplete > 0
      ? [`${vectors.incomplete} documents lack vectors: audit-stores --repair embeds them again.`]
      : []),
    ...(manifest.missingOriginals > 0 ? [`${manifest.missingOriginals} originals were lost before the backup.`] : []),
    ...(unreadableCredentials > 0
      ? [
          `${unreadableCredentials} connections have credentials that no key in ENCRYPTION_KEYS decrypts: set the keys that were used at the time of the backup.`,
        ]
      : []),
  ];
  const next = [
    'All sessions have ended: all users have to sign in again.',
    'Next: start the API and the workers, then',
    '  npm run admin -- verify',
    '  npm run admin -- audit-stores',
  ];
  for (const line of [...lost, '', ...next]) print(line);
  return lost.length === 0;
}
