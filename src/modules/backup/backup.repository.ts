import type { Knex } from 'knex';
import { NIL } from 'uuid';
import { listMigrationNames } from '#src/adapters/postgres/database.ts';
import {
  bigintColumn,
  defineRowShape,
  integerColumn,
  pickColumns,
  queryFirstRow,
  queryOneRow,
  queryRows,
  type SqlRow,
  textArrayColumn,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import { ChunkModel } from '#src/modules/documents/documents.model.ts';
import { ExportVolumeModel } from '#src/modules/exports/exports.model.ts';
import type { GenerationKey } from '#src/ports/vector-store.ts';

const KEYS_PER_FETCH = 500;

export type BackupRepository = ReturnType<typeof createBackupRepository>;

const exportedSnapshot = defineRowShape({ snapshot: textColumn(), takenAt: timestampColumn() });
const server = defineRowShape({ major: integerColumn() });
const named = defineRowShape({ name: textColumn() });
const relation = defineRowShape({ name: textColumn().nullable() });
const total = defineRowShape({ count: bigintColumn() });
const migrated = defineRowShape({ migrationTime: timestampColumn() });
const original = defineRowShape({ key: textColumn() });
const restore = defineRowShape({ backup: textColumn() });

export function createBackupRepository(db: Knex) {
  return {
    /**
     * Disables the statement and idle timeouts of this transaction, because a backup may take long to copy its database
     * snapshot.
     */
    async disableTimeouts(): Promise<void> {
      await db.raw('set local statement_timeout = 0');
      await db.raw('set local idle_in_transaction_session_timeout = 0');
    },

    async exportSnapshot(): Promise<{ snapshot: string; takenAt: Date }> {
      return queryOneRow(db, exportedSnapshot, 'select pg_export_snapshot() as snapshot, now() as taken_at');
    },

    async serverMajor(): Promise<number> {
      const sql = "select current_setting('server_version_num')::integer / 10000 as major";
      return (await queryOneRow(db, server, sql)).major;
    },

    async lastMigration(): Promise<string | null> {
      const last = await queryFirstRow(db, named, 'select name::text from knex_migrations order by id desc limit 1');
      return last?.name ?? null;
    },

    knownMigrations: listMigrationNames,

    async listTables(): Promise<string[]> {
      const tables = await queryRows(
        db,
        named,
        `select c.relname::text as name from pg_class c
         where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
           and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
         order by c.relname`,
      );
      return tables.map(({ name }) => name);
    },

    async countRows(table: string): Promise<number> {
      return (await queryOneRow(db, total, 'select count(*) as count from ??', [table])).count;
    },

    /** Identifies an installation, and restored copies of it, by the time of its first migration. */
    async installation(): Promise<string | null> {
      const first = await queryFirstRow(db, migrated, 'select migration_time from knex_migrations order by id limit 1');
      return first?.migrationTime.toISOString() ?? null;
    },

    async findExportVolumes(keys: readonly string[]): Promise<Set<string>> {
      const table = await queryOneRow(db, relation, "select to_regclass('public.export_volumes')::text as name");
      // The table `export_volumes` is missing if the database has not been migrated to this version yet.
      if (table.name === null) return new Set();
      const volumes = await ExportVolumeModel.table(db)
        .whereIn('blobKey', [...keys])
        .select('blobKey');
      return new Set(volumes.map(({ blobKey }) => blobKey));
    },

    /**
     * Yields the sorted blob keys of all originals that documents, their generations or previews refer to. Call it in a
     * transaction, because it opens a cursor. Keys in `blob_claims` are left out.
     */
    async *listOriginals(): AsyncGenerator<string[]> {
      await db.raw(
        `declare originals no scroll cursor for
         select blob_key collate "C" as key from documents where deleted_at is null
         union
         select blob_key from previews
         union
         select g.blob_key from document_generations g
         join documents d on d.id = g.document_id and d.generation = g.generation and d.deleted_at is null
         where g.conversion_id is null
         order by key`,
      );
      for (;;) {
        const originals = await queryRows(db, original, `fetch ${KEYS_PER_FETCH} from originals`);
        if (originals.length === 0) break;
        yield originals.map(({ key }) => key);
      }
      await db.raw('close originals');
    },

    /** Lists connected processes that may write: the API, a worker, or an earlier restore that still runs. */
    async listWriters(): Promise<string[]> {
      const writers = await queryRows(
        db,
        named,
        `select distinct application_name as name from pg_stat_activity
         where datname = current_database() and application_name in ('api', 'worker', 'pg_restore') order by 1`,
      );
      return writers.map(({ name }) => name);
    },

    async findRestore(): Promise<string | null> {
      const marker = await queryOneRow(db, relation, "select to_regclass('public.backup_restore')::text as name");
      if (marker.name === null) return null;
      return (await queryOneRow(db, restore, 'select backup from backup_restore')).backup;
    },

    async beginRestore(backup: string): Promise<void> {
      await db.raw('create table backup_restore as select ?::text as backup', [backup]);
    },

    async endRestore(): Promise<void> {
      await db.raw('drop table backup_restore');
    },
  };
}

export const restoreMarkerTable = 'backup_restore';

const activeGeneration = defineRowShape({
  orgId: uuidColumn(),
  documentId: uuidColumn(),
  generation: integerColumn(),
  chunksTotal: integerColumn(),
  model: textColumn(),
  acl: textArrayColumn(),
  retrievalSettings: textColumn(),
});
type ActiveGeneration = SqlRow<typeof activeGeneration>;

const chunkHash = pickColumns(ChunkModel, 'id', 'chunkIndex', 'textSha256');
type ChunkHash = SqlRow<typeof chunkHash>;

export function createVectorRebuildRepository(db: Knex) {
  return {
    async listActive(after: string | null, limit: number): Promise<ActiveGeneration[]> {
      const active = db('documents as d')
        .join('documentGenerations as g', { 'g.documentId': 'd.id', 'g.generation': 'd.activeGeneration' })
        .whereNull('d.deletedAt')
        .where('g.chunksTotal', '>', 0)
        .where('d.id', '>', after ?? NIL)
        .orderBy('d.id')
        .limit(limit)
        .select([
          ...['d.orgId', 'd.id as documentId', 'g.generation', 'g.chunksTotal'],
          ...['g.embeddingModel as model', 'd.acl', 'd.retrievalSettings'],
        ]);
      return queryRows(db, activeGeneration, active);
    },

    async listChunks(
      { orgId, documentId, generation }: GenerationKey,
      after: number,
      limit: number,
    ): Promise<ChunkHash[]> {
      return ChunkModel.table(db)
        .where({ orgId, documentId, generation })
        .where('chunkIndex', '>', after)
        .orderBy('chunkIndex')
        .limit(limit)
        .select('id', 'chunkIndex', 'textSha256');
    },
  };
}
