import type { Knex } from 'knex';
import type { CredentialStore } from '#src/modules/credentials/credentials.service.ts';
import type { EmbeddingsService } from '#src/modules/embeddings/embeddings.service.ts';
import type { DatabaseDumps, MaintenanceLock } from '#src/ports/backup.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import { createBackupRepository } from './backup.repository.ts';
import { type BackupManifest, placeOf } from './backup-manifest.ts';
import { type FoundBackup, findBackup } from './backup-places.ts';
import { checkBackup } from './check-backup.ts';
import { createOriginalCopies, type OriginalCopy, readCopies } from './original-copies.ts';
import { createProgress, inParts } from './progress.ts';
import { rebuildVectors } from './rebuild-vectors.ts';

const COPIES_AT_ONCE = 8;
const KEYS_AT_ONCE = 500;

type Note = (line: string) => void;

export type RestoreReport = FoundBackup & {
  /** Generations whose vectors were made from what Postgres keeps, and those that need a model. */
  vectors: { rebuilt: number; incomplete: number };
  /** Credentials that none of the keys of this installation opens. */
  unreadableCredentials: number;
};

/** Makes an installation from a backup. Everything may be repeated: what is there already is not made again. */
export function createRestoreService(deps: {
  db: Knex;
  blobs: Pick<BlobStore, 'exists' | 'stage' | 'promote' | 'unstage'>;
  dumps: Pick<DatabaseDumps, 'restore'>;
  vectors: Pick<VectorStore, 'countGenerations' | 'upsert' | 'publish'>;
  embeddings: Pick<EmbeddingsService, 'findCached'>;
  credentials: readonly Pick<CredentialStore<unknown>, 'countUnreadable'>[];
  withoutOthers: MaintenanceLock;
  /** Brings the schema up to date. */
  migrate: () => Promise<void>;
}) {
  const { db, blobs, dumps, credentials, withoutOthers, migrate } = deps;
  const repository = createBackupRepository(db);

  /** Throws for a database that somebody else uses, or has used. @returns whether this backup was begun here before */
  async function requireEmpty({ manifest }: FoundBackup): Promise<boolean> {
    const users = await repository.listUsers();
    if (users.length > 0) throw new Error(`This database is in use (${users.join(', ')}): stop what uses it first.`);
    const begun = await repository.findRestore();
    if (begun === manifest.takenAt) return true;
    if (begun !== null) {
      throw new Error(
        `The restore of another backup, of ${begun}, was begun here: go on with that, or empty the database.`,
      );
    }
    const tables = await repository.listTables();
    if (tables.length > 0) {
      throw new Error(
        `The database is not empty: it has ${tables.length} tables. docs/backup.md says how to empty it.`,
      );
    }
    return false;
  }

  async function requireUnderstood({ migration, postgresMajor }: BackupManifest): Promise<void> {
    if (!repository.knownMigrations().includes(migration)) {
      throw new Error(`The backup is of a newer version of the service: this one has no migration ${migration}.`);
    }
    const server = await repository.serverMajor();
    if (server >= postgresMajor) return;
    throw new Error(
      `The backup is of Postgres ${postgresMajor}, and this server is Postgres ${server}: take a newer one.`,
    );
  }

  async function requireSound(backup: FoundBackup, note: Note): Promise<void> {
    note('Checking the backup …');
    const faults = await checkBackup(backup, note);
    if (faults.length === 0) return;
    for (const fault of faults) note(fault);
    throw new Error(`The backup is damaged: nothing was restored. ${faults[0]}`);
  }

  async function restoreOriginals({ path, folder, manifest }: FoundBackup, note: Note): Promise<void> {
    note('Originals …');
    const copies = createOriginalCopies(folder);
    const progress = createProgress(note, (count) => `Originals: ${count} of ${manifest.originals.count} …`);
    const restoreOne = async ({ key, sizeBytes, sha256 }: OriginalCopy) => {
      progress.add(1);
      if (await blobs.exists(key)) return;
      const staged = await blobs.stage({ content: await copies.open(key), limitBytes: sizeBytes });
      if (staged.sha256 !== sha256) {
        await blobs.unstage(staged.stagingKey);
        throw new Error(`${copies.pathOf(key)} has changed since it was checked.`);
      }
      await blobs.promote(staged.stagingKey, key);
    };
    let waiting: OriginalCopy[] = [];
    for await (const copy of readCopies(placeOf(path).originals)) {
      waiting.push(copy);
      if (waiting.length < KEYS_AT_ONCE) continue;
      await inParts(waiting, COPIES_AT_ONCE, restoreOne);
      waiting = [];
    }
    await inParts(waiting, COPIES_AT_ONCE, restoreOne);
  }

  async function restoreDatabase({ path, manifest }: FoundBackup, note: Note): Promise<void> {
    note('The database …');
    // It came as a whole; one that was cut short later may have migrated it, and made vectors.
    if ((await repository.listTables()).includes('knex_migrations')) return;
    await dumps.restore({ path: placeOf(path).database, writtenByMajor: manifest.postgresMajor });
    await db.transaction(async (trx) => {
      const counting = createBackupRepository(trx);
      await counting.takeTime();
      for (const [table, count] of Object.entries(manifest.rows)) {
        const found = await counting.countRows(table);
        if (found !== count)
          throw new Error(`Of ${count} rows of ${table} there are ${found}: the restore went wrong.`);
      }
    });
  }

  return {
    /**
     * Throws, in words for the operator, for a backup that is damaged or too new, a database that is not empty, and
     * while another command works on it.
     */
    async restore(from: string, note: Note): Promise<RestoreReport> {
      const backup = await findBackup(from);
      return withoutOthers(async () => {
        const isBegun = await requireEmpty(backup);
        await requireUnderstood(backup.manifest);
        await requireSound(backup, note);
        // Originals come first: no row is there without its own, wherever this is cut short.
        await restoreOriginals(backup, note);
        if (!isBegun) await repository.beginRestore(backup.manifest.takenAt);
        await restoreDatabase(backup, note);
        await migrate();
        note('Vectors …');
        const vectors = await rebuildVectors(deps, note);
        let unreadableCredentials = 0;
        for (const stored of credentials) unreadableCredentials += await stored.countUnreadable();
        await repository.endRestore();
        return { ...backup, vectors, unreadableCredentials };
      });
    },
  };
}
