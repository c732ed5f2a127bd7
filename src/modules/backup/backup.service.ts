import { open } from 'node:fs/promises';
import type { Knex } from 'knex';
import { organizationOfBlobKey } from '#src/domain/documents/blob-keys.ts';
import { AppError } from '#src/errors.ts';
import type { DatabaseDumps, MaintenanceLock } from '#src/ports/backup.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import { type BackupRepository, createBackupRepository, restoreMarkerTable } from './backup.repository.ts';
import {
  type BackupManifest,
  backupFilePaths,
  backupFormatVersion,
  createUnfinishedBackup,
  deleteBackup,
  deleteUnfinishedBackups,
  type FinishedBackup,
  findBackup,
  findBackupDamage,
  finishBackup,
  listBackups,
  reserveBackupFolder,
} from './backup-folder.ts';
import {
  type CopiedOriginalFile,
  createOriginalFileCopies,
  createProgressPrinter,
  forEachInBatches,
  hashFile,
  type OriginalFileCopies,
} from './original-copies.ts';

/**
 * Tables whose rows are not backed up: short-lived state, and sessions, because they may be revoked after the backup.
 */
const tablesWithoutRows: readonly string[] = [
  ...['refresh_tokens', 'refresh_token_families', 'oauth_states', 'sign_in_states'],
  ...['idempotency_keys', 'rate_limits', 'model_calls', 'model_pauses', 'blob_claims'],
  // Exports are not backed up: they expire within days, and can be made again from the restored data.
  ...['exports', 'export_volumes'],
];

/** Blobs per listed page: many, because the file store reads a whole folder for each page. */
const BLOBS_PER_PAGE = 5_000;
const CONCURRENT_COPIES = 8;
/**
 * Attempts at a database snapshot whose originals all exist. Another attempt is needed only if a document was uploaded
 * and deleted during the previous one.
 */
const MAX_SNAPSHOTS = 10;
const MAX_LOST_LISTED = 20;

type Note = (line: string) => void;
type WrittenSnapshot = Pick<BackupManifest, 'takenAt' | 'postgresMajor' | 'migration' | 'rows' | 'missingOriginals'> & {
  count: number;
  bytes: number;
};

/** Backs up everything that cannot be computed again into a folder, while the service is running. */
export function createBackupService(deps: {
  db: Knex;
  blobs: Pick<BlobStore, 'list' | 'read'>;
  dumps: Pick<DatabaseDumps, 'write'>;
  withoutOthers: MaintenanceLock;
  vectorStore: BackupManifest['vectorStore'];
}) {
  const { db, blobs, dumps, withoutOthers, vectorStore } = deps;
  const repository = createBackupRepository(db);

  /**
   * Copies an original into the backup folder unless the folder has a copy. Returns null if the blob store has lost the
   * original or holds other content under its key.
   */
  async function copyOriginal(copies: OriginalFileCopies, key: string): Promise<CopiedOriginalFile | null> {
    const existing = await copies.find(key);
    if (existing !== null) return existing;
    try {
      return await copies.add(key, await blobs.read(key));
    } catch (error) {
      if (error instanceof AppError && error.code === 'blob_missing') return null;
      throw error;
    }
  }

  /**
   * Copies all originals before the database snapshot is opened, so that the snapshot stays open for a short time only.
   */
  async function copyStored(copies: OriginalFileCopies, note: Note): Promise<void> {
    const progress = createProgressPrinter(note, (count) => `Originals: ${count} copied or already present …`);
    for (let after: string | null = null; ; ) {
      const page = await blobs.list({ after, limit: BLOBS_PER_PAGE });
      const exported = await repository.findExportVolumes(page.map(({ key }) => key));
      const ours = page.filter(({ key }) => organizationOfBlobKey(key) !== null && !exported.has(key));
      await forEachInBatches(ours, CONCURRENT_COPIES, async ({ key }) => {
        await copyOriginal(copies, key);
        progress.add(1);
      });
      after = page.at(-1)?.key ?? null;
      if (page.length < BLOBS_PER_PAGE) return;
    }
  }

  /**
   * Writes a list of all originals of the snapshot to `path`, and copies those that were uploaded since `copyStored`
   * ran.
   */
  async function listOriginals(
    snapshot: BackupRepository,
    copies: OriginalFileCopies,
    path: string,
  ): Promise<{ count: number; bytes: number; lost: string[] }> {
    const listed = { count: 0, bytes: 0, lost: [] as string[] };
    const list = await open(path, 'w', 0o600);
    try {
      for await (const keys of snapshot.listOriginals()) {
        const found = new Map<string, CopiedOriginalFile>();
        await forEachInBatches(keys, CONCURRENT_COPIES, async (key) => {
          const copy = await copyOriginal(copies, key);
          if (copy === null) listed.lost.push(key);
          else found.set(key, copy);
        });
        const inOrder = keys.flatMap((key) => found.get(key) ?? []);
        await list.writeFile(inOrder.map((copy) => `${JSON.stringify(copy)}\n`).join(''));
        listed.count += inOrder.length;
        listed.bytes += inOrder.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
      }
      await list.sync();
    } finally {
      await list.close();
    }
    return listed;
  }

  /**
   * Writes a database snapshot and the list of the originals that it refers to.
   * @param known keys of originals that the previous attempt could not copy either, so the blob store has lost them
   * @returns the snapshot; or the missing originals, without writing the database, if any of them is not in `known`
   */
  async function writeSnapshot(
    draft: string,
    copies: OriginalFileCopies,
    known: ReadonlySet<string>,
    note: Note,
  ): Promise<WrittenSnapshot | { lost: string[] }> {
    const files = backupFilePaths(draft);
    const work = async (trx: Knex): Promise<WrittenSnapshot | { lost: string[] }> => {
      const reader = createBackupRepository(trx);
      await reader.disableTimeouts();
      const { snapshot, takenAt } = await reader.exportSnapshot();
      const migration = await reader.lastMigration();
      if (migration === null) throw new Error('The database has no migrations: there is nothing to back up.');
      const { count, bytes, lost } = await listOriginals(reader, copies, files.originals);
      if (lost.some((key) => !known.has(key))) return { lost };

      for (const key of lost.slice(0, MAX_LOST_LISTED))
        note(`The store has lost ${key}, or has other content under that key.`);
      note('The database …');
      const rows: Record<string, number> = {};
      const kept = (await reader.listTables()).filter(
        (name) => ![...tablesWithoutRows, restoreMarkerTable].includes(name),
      );
      for (const table of kept) rows[table] = await reader.countRows(table);
      const postgresMajor = await reader.serverMajor();
      const written = { withoutRowsOf: tablesWithoutRows, without: [restoreMarkerTable] };
      await dumps.write({ path: files.database, snapshot, serverMajor: postgresMajor, ...written });
      return {
        takenAt: takenAt.toISOString(),
        postgresMajor,
        migration,
        rows,
        missingOriginals: lost.length,
        count,
        bytes,
      };
    };
    return db.transaction(work, { isolationLevel: 'repeatable read', readOnly: true });
  }

  async function write(folder: string, note: Note): Promise<FinishedBackup> {
    const copies = createOriginalFileCopies(folder);
    await copies.deletePartial();
    await deleteUnfinishedBackups(folder);
    const draft = await createUnfinishedBackup(folder);
    note('Originals …');
    await copyStored(copies, note);
    let known = new Set<string>();
    for (let attempt = 1; attempt <= MAX_SNAPSHOTS; attempt += 1) {
      const written = await writeSnapshot(draft, copies, known, note);
      if ('lost' in written) {
        known = new Set(written.lost);
        continue;
      }
      await copies.sync();
      await copies.deletePartial();
      const { count, bytes, ...about } = written;
      const files = backupFilePaths(draft);
      const manifest: BackupManifest = {
        format: backupFormatVersion,
        ...about,
        completedAt: new Date().toISOString(),
        vectorStore,
        database: await hashFile(files.database),
        originals: { ...(await hashFile(files.originals)), count, bytes },
      };
      return { folder, manifest, path: await finishBackup(draft, manifest) };
    }
    throw new Error(
      'Originals were deleted faster than they could be copied. Try again while fewer documents are being deleted.',
    );
  }

  return {
    /**
     * Writes a backup in which every row has its original, even if documents are uploaded and deleted meanwhile.
     * Originals that another backup in the folder has are not copied again.
     * @param options.keep number of backups that stay in the folder, including this one; null keeps all
     */
    async backUp(options: { folder: string; keep: number | null; note: Note }): Promise<FinishedBackup> {
      const { folder, keep, note } = options;
      return withoutOthers(async () => {
        if ((await repository.findRestore()) !== null) {
          throw new Error('A restore of this database is unfinished: repeat the restore to complete it, then back up.');
        }
        const installation = await repository.installation();
        if (installation === null) throw new Error('The database has no migrations: there is nothing to back up.');
        await reserveBackupFolder(folder, installation);
        const backup = await write(folder, note);
        const older = (await listBackups(folder)).slice(0, keep === null ? 0 : -keep);
        for (const path of older) await deleteBackup(path);
        const lists = (await listBackups(folder)).map((path) => backupFilePaths(path).originals);
        await createOriginalFileCopies(folder).deleteUnlisted(lists);
        return backup;
      });
    },

    async check(from: string, note: Note): Promise<FinishedBackup & { faults: string[] }> {
      const backup = await findBackup(from);
      return { ...backup, faults: await findBackupDamage(backup, note) };
    },
  };
}
