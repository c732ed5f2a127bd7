import type { Knex } from 'knex';
import type { CredentialStore } from '#src/modules/credentials/credentials.service.ts';
import type { EmbeddingsService } from '#src/modules/embeddings/embeddings.service.ts';
import type { DatabaseDumps, MaintenanceLock } from '#src/ports/backup.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import type { PublishedGeneration, VectorStore } from '#src/ports/vector-store.ts';
import { createBackupRepository, createVectorRebuildRepository } from './backup.repository.ts';
import {
  type BackupManifest,
  backupFilePaths,
  type FinishedBackup,
  findBackup,
  findBackupDamage,
} from './backup-folder.ts';
import {
  type CopiedOriginalFile,
  createOriginalFileCopies,
  createProgressPrinter,
  forEachInBatches,
  readOriginalsList,
} from './original-copies.ts';

const CONCURRENT_COPIES = 8;
const COPIES_PER_BATCH = 500;
const GENERATIONS_PER_PAGE = 200;
const CHUNKS_PER_PAGE = 500;

type Note = (line: string) => void;

export type RestoreReport = FinishedBackup & {
  /**
   * Number of generations whose vectors were rebuilt from stored embeddings, and of those whose embeddings are
   * incomplete.
   */
  vectors: { rebuilt: number; incomplete: number };
  unreadableCredentials: number;
};

/** Restores an installation from a backup. Repeating an interrupted restore continues it. */
export function createRestoreService(deps: {
  db: Knex;
  blobs: Pick<BlobStore, 'exists' | 'stage' | 'promote' | 'unstage'>;
  dumps: Pick<DatabaseDumps, 'restore'>;
  vectors: Pick<VectorStore, 'countGenerations' | 'upsert' | 'publish'>;
  embeddings: Pick<EmbeddingsService, 'findCached'>;
  credentials: readonly Pick<CredentialStore<unknown>, 'countUnreadable'>[];
  withoutOthers: MaintenanceLock;
  migrate: () => Promise<void>;
}) {
  const { db, blobs, dumps, credentials, withoutOthers, migrate } = deps;
  const repository = createBackupRepository(db);

  /**
   * Throws if the database is in use or contains other data. Returns true if an interrupted restore of the same backup
   * can be continued, and false if the database is empty.
   */
  async function requireEmpty({ manifest }: FinishedBackup): Promise<boolean> {
    const writers = await repository.listWriters();
    if (writers.length > 0) {
      throw new Error(`The database is in use (${writers.join(', ')}): stop these processes first.`);
    }
    const started = await repository.findRestore();
    if (started === manifest.takenAt) return true;
    if (started !== null) {
      throw new Error(
        `The restore of another backup (taken at ${started}) is unfinished in this database: complete that restore, or empty the database.`,
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

  async function requireSupported({ migration, postgresMajor }: BackupManifest): Promise<void> {
    if (!repository.knownMigrations().includes(migration)) {
      throw new Error(`The backup is from a newer version of the service: this version has no migration ${migration}.`);
    }
    const server = await repository.serverMajor();
    if (server >= postgresMajor) return;
    throw new Error(
      `The backup was made on Postgres ${postgresMajor}; this server is Postgres ${server}. Use a server of version ${postgresMajor} or newer.`,
    );
  }

  async function requireUndamaged(backup: FinishedBackup, note: Note): Promise<void> {
    note('Checking the backup …');
    const faults = await findBackupDamage(backup, note);
    if (faults.length === 0) return;
    for (const fault of faults) note(fault);
    throw new Error(`The backup is damaged: nothing was restored. ${faults[0]}`);
  }

  async function restoreOriginals({ path, folder, manifest }: FinishedBackup, note: Note): Promise<void> {
    note('Originals …');
    const copies = createOriginalFileCopies(folder);
    const progress = createProgressPrinter(note, (count) => `Originals: ${count} of ${manifest.originals.count} …`);
    const restoreOne = async ({ key, sizeBytes, sha256 }: CopiedOriginalFile) => {
      progress.add(1);
      if (await blobs.exists(key)) return;
      const staged = await blobs.stage({ content: await copies.open(key), limitBytes: sizeBytes });
      if (staged.sha256 !== sha256) {
        await blobs.unstage(staged.stagingKey);
        throw new Error(`The copied original ${copies.pathOf(key)} has changed since the backup was checked.`);
      }
      await blobs.promote(staged.stagingKey, key);
    };
    let waiting: CopiedOriginalFile[] = [];
    for await (const copy of readOriginalsList(backupFilePaths(path).originals)) {
      waiting.push(copy);
      if (waiting.length < COPIES_PER_BATCH) continue;
      await forEachInBatches(waiting, CONCURRENT_COPIES, restoreOne);
      waiting = [];
    }
    await forEachInBatches(waiting, CONCURRENT_COPIES, restoreOne);
  }

  async function restoreDatabase({ path, manifest }: FinishedBackup, note: Note): Promise<void> {
    note('The database …');
    // If `knex_migrations` exists, an interrupted attempt has restored the whole database, and may have migrated it.
    if ((await repository.listTables()).includes('knex_migrations')) return;
    await dumps.restore({ path: backupFilePaths(path).database, writtenByMajor: manifest.postgresMajor });
    await db.transaction(async (trx) => {
      const reader = createBackupRepository(trx);
      await reader.disableTimeouts();
      for (const [table, count] of Object.entries(manifest.rows)) {
        const found = await reader.countRows(table);
        if (found !== count) throw new Error(`Table ${table} has ${found} rows after the restore instead of ${count}.`);
      }
    });
  }

  return {
    async restore(from: string, note: Note): Promise<RestoreReport> {
      const backup = await findBackup(from);
      return withoutOthers(async () => {
        const isStarted = await requireEmpty(backup);
        await requireSupported(backup.manifest);
        await requireUndamaged(backup, note);
        // Originals are restored first, so that an interrupted restore leaves no row without its original.
        await restoreOriginals(backup, note);
        if (!isStarted) await repository.beginRestore(backup.manifest.takenAt);
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

/**
 * Writes missing vectors of active generations into the vector store, from the embeddings in Postgres. No other process
 * may write vectors meanwhile.
 * @returns the number of rebuilt generations, and of those with incomplete embeddings, which need `audit-stores
 * --repair`
 */
async function rebuildVectors(
  deps: {
    db: Knex;
    vectors: Pick<VectorStore, 'countGenerations' | 'upsert' | 'publish'>;
    embeddings: Pick<EmbeddingsService, 'findCached'>;
  },
  note: (line: string) => void,
): Promise<{ rebuilt: number; incomplete: number }> {
  const { vectors, embeddings } = deps;
  const repository = createVectorRebuildRepository(deps.db);
  const progress = createProgressPrinter(note, (count) => `Vectors: ${count} documents checked …`);

  async function rebuild(of: PublishedGeneration): Promise<boolean> {
    const { orgId, documentId, generation, model } = of;
    let isWhole = true;
    for (let after = -1; ; ) {
      const chunks = await repository.listChunks(of, after, CHUNKS_PER_PAGE);
      const hashes = chunks.flatMap(({ textSha256 }) => textSha256 ?? []);
      const known = await embeddings.findCached({ orgId, model }, hashes);
      const points = chunks.flatMap(({ id, textSha256 }) => {
        const vector = textSha256 === null ? undefined : known.get(textSha256.toString('hex'));
        return vector === undefined ? [] : [{ id, documentId, generation, vector }];
      });
      if (points.length < chunks.length) isWhole = false;
      if (points.length > 0) await vectors.upsert({ orgId, model, points });
      const last = chunks.at(-1);
      if (last === undefined || chunks.length < CHUNKS_PER_PAGE) break;
      after = last.chunkIndex;
    }
    await vectors.publish(of);
    return isWhole;
  }

  const counts = { rebuilt: 0, incomplete: 0 };
  for (let after: string | null = null; ; ) {
    const page = await repository.listActive(after, GENERATIONS_PER_PAGE);
    const stored = await vectors.countGenerations(page);
    for (const [index, { chunksTotal, ...of }] of page.entries()) {
      progress.add(1);
      if (stored[index] === chunksTotal) continue;
      counts[(await rebuild(of)) ? 'rebuilt' : 'incomplete'] += 1;
    }
    after = page.at(-1)?.documentId ?? null;
    if (after === null || page.length < GENERATIONS_PER_PAGE) return counts;
  }
}
