import { open } from 'node:fs/promises';
import type { Knex } from 'knex';
import { organizationOf } from '#src/domain/documents/names.ts';
import { AppError } from '#src/errors.ts';
import type { DatabaseDumps, MaintenanceLock } from '#src/ports/backup.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import { type BackupRepository, createBackupRepository, restoreMarker } from './backup.repository.ts';
import { type BackupManifest, backupFormat, placeOf } from './backup-manifest.ts';
import {
  beginBackup,
  claimFolder,
  deleteBackup,
  deleteUnfinished,
  type FoundBackup,
  findBackup,
  finishBackup,
  listBackups,
} from './backup-places.ts';
import { checkBackup } from './check-backup.ts';
import { createOriginalCopies, measureFile, type OriginalCopies, type OriginalCopy } from './original-copies.ts';
import { createProgress, inParts } from './progress.ts';

/** Rows that mean nothing after a restore, or what must not come back: a session that was ended since, for one. */
const passingTables: readonly string[] = [
  ...['refresh_tokens', 'refresh_token_families', 'oauth_states', 'sign_in_states'],
  ...['idempotency_keys', 'rate_limits', 'model_calls', 'model_pauses', 'blob_claims'],
  // They expire within days, and their files are made from what is in the backup.
  ...['exports', 'export_volumes'],
];

/** A page of files costs a look at all names of its folder. */
const BLOBS_AT_ONCE = 5_000;
const COPIES_AT_ONCE = 8;
/** Each is needed only where something was uploaded during the one before and deleted since. */
const MOMENTS = 10;
const LOST_TOLD = 20;

type Note = (line: string) => void;
type Moment = Pick<BackupManifest, 'takenAt' | 'postgresMajor' | 'migration' | 'rows' | 'missingOriginals'> & {
  count: number;
  bytes: number;
};

/** Copies everything that cannot be made anew into a folder, while all of it is in use. */
export function createBackupService(deps: {
  db: Knex;
  blobs: Pick<BlobStore, 'list' | 'read'>;
  dumps: Pick<DatabaseDumps, 'write'>;
  withoutOthers: MaintenanceLock;
  vectorStore: BackupManifest['vectorStore'];
}) {
  const { db, blobs, dumps, withoutOthers, vectorStore } = deps;
  const repository = createBackupRepository(db);

  /** @returns null where the store does not have it, or another content in its place */
  async function copyOriginal(copies: OriginalCopies, key: string): Promise<OriginalCopy | null> {
    const there = await copies.find(key);
    if (there !== null) return there;
    try {
      return await copies.keep(key, await blobs.read(key));
    } catch (error) {
      if (error instanceof AppError && error.code === 'blob_missing') return null;
      throw error;
    }
  }

  /** The long part, which no moment of the database waits for. */
  async function copyStored(copies: OriginalCopies, note: Note): Promise<void> {
    const progress = createProgress(note, (count) => `Originals: ${count} copied or there already …`);
    for (let after: string | null = null; ; ) {
      const page = await blobs.list({ after, limit: BLOBS_AT_ONCE });
      const exported = await repository.volumesOfExports(page.map(({ key }) => key));
      const ours = page.filter(({ key }) => organizationOf(key) !== null && !exported.has(key));
      await inParts(ours, COPIES_AT_ONCE, async ({ key }) => {
        await copyOriginal(copies, key);
        progress.add(1);
      });
      after = page.at(-1)?.key ?? null;
      if (page.length < BLOBS_AT_ONCE) return;
    }
  }

  /** Copies what came since, and lists all that the moment refers to. */
  async function listOriginals(
    moment: BackupRepository,
    copies: OriginalCopies,
    path: string,
  ): Promise<{ count: number; bytes: number; lost: string[] }> {
    const listed = { count: 0, bytes: 0, lost: [] as string[] };
    const list = await open(path, 'w', 0o600);
    try {
      for await (const keys of moment.listOriginals()) {
        const found = new Map<string, OriginalCopy>();
        await inParts(keys, COPIES_AT_ONCE, async (key) => {
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
   * One moment of the database, written with all originals that it refers to.
   * @param known originals that the moment before missed, too: no deletion, but the store has lost them
   * @returns which others it misses, where there are any: then nothing was written
   */
  async function writeMoment(
    draft: string,
    copies: OriginalCopies,
    known: ReadonlySet<string>,
    note: Note,
  ): Promise<Moment | { lost: string[] }> {
    const place = placeOf(draft);
    const work = async (trx: Knex): Promise<Moment | { lost: string[] }> => {
      const moment = createBackupRepository(trx);
      await moment.takeTime();
      const { snapshot, takenAt } = await moment.exportSnapshot();
      const migration = await moment.lastMigration();
      if (migration === null) throw new Error('The database has no migrations: there is nothing to back up.');
      const { count, bytes, lost } = await listOriginals(moment, copies, place.originals);
      if (lost.some((key) => !known.has(key))) return { lost };

      for (const key of lost.slice(0, LOST_TOLD)) note(`The store has lost ${key}, or has another content there.`);
      note('The database …');
      const rows: Record<string, number> = {};
      const kept = (await moment.listTables()).filter((name) => ![...passingTables, restoreMarker].includes(name));
      for (const table of kept) rows[table] = await moment.countRows(table);
      const postgresMajor = await moment.serverMajor();
      const written = { withoutRowsOf: passingTables, without: [restoreMarker] };
      await dumps.write({ path: place.database, snapshot, serverMajor: postgresMajor, ...written });
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

  async function write(folder: string, note: Note): Promise<FoundBackup> {
    const copies = createOriginalCopies(folder);
    await copies.deleteStrays();
    await deleteUnfinished(folder);
    const draft = await beginBackup(folder);
    note('Originals …');
    await copyStored(copies, note);
    let known = new Set<string>();
    for (let moment = 1; moment <= MOMENTS; moment += 1) {
      const written = await writeMoment(draft, copies, known, note);
      if ('lost' in written) {
        known = new Set(written.lost);
        continue;
      }
      await copies.sync();
      await copies.deleteStrays();
      const { count, bytes, ...about } = written;
      const place = placeOf(draft);
      const manifest: BackupManifest = {
        format: backupFormat,
        ...about,
        completedAt: new Date().toISOString(),
        vectorStore,
        database: await measureFile(place.database),
        originals: { ...(await measureFile(place.originals)), count, bytes },
      };
      return { folder, manifest, path: await finishBackup(draft, manifest) };
    }
    throw new Error('Originals go faster than they are copied: try again when less is deleted.');
  }

  return {
    /**
     * Every row of the backup has its original, whatever is uploaded and deleted meanwhile; what other backups of the
     * folder have is not copied again.
     * @param wish.keep how many backups the folder has at most, when this one is complete; null: all
     */
    async backUp(wish: { folder: string; keep: number | null; note: Note }): Promise<FoundBackup> {
      const { folder, keep, note } = wish;
      return withoutOthers(async () => {
        if ((await repository.findRestore()) !== null) {
          throw new Error('A restore was begun here and has not come to its end: go on with that first.');
        }
        const installation = await repository.installation();
        if (installation === null) throw new Error('The database has no migrations: there is nothing to back up.');
        await claimFolder(folder, installation);
        const backup = await write(folder, note);
        const older = (await listBackups(folder)).slice(0, keep === null ? 0 : -keep);
        for (const path of older) await deleteBackup(path);
        const lists = (await listBackups(folder)).map((path) => placeOf(path).originals);
        await createOriginalCopies(folder).deleteUnlisted(lists);
        return backup;
      });
    },

    /** @returns what is wrong with it, in words; nothing, when it can be restored */
    async check(from: string, note: Note): Promise<FoundBackup & { faults: string[] }> {
      const backup = await findBackup(from);
      return { ...backup, faults: await checkBackup(backup, note) };
    },
  };
}
