import type { Knex } from 'knex';
import { migrationNames } from '#src/adapters/postgres/database.ts';
import { bigint, firstRow, integer, oneRow, rows, shape, text, timestamp } from '#src/adapters/postgres/shapes.ts';
import { ExportVolumeModel } from '#src/modules/exports/exports.model.ts';

const KEYS_AT_ONCE = 500;

export type BackupRepository = ReturnType<typeof createBackupRepository>;

const moment = shape({ snapshot: text(), takenAt: timestamp() });
const server = shape({ major: integer() });
const named = shape({ name: text() });
/** Null where there is none of this name. */
const relation = shape({ name: text().nullable() });
const total = shape({ count: bigint() });
const migrated = shape({ migrationTime: timestamp() });
const original = shape({ key: text() });
const restore = shape({ backup: text() });

export function createBackupRepository(db: Knex) {
  return {
    /** A copy takes as long as it takes: what ends sleepers elsewhere would end the moment that is copied. */
    async takeTime(): Promise<void> {
      await db.raw('set local statement_timeout = 0');
      await db.raw('set local idle_in_transaction_session_timeout = 0');
    },

    /** The moment that this transaction sees, for others to see as well. */
    async exportSnapshot(): Promise<{ snapshot: string; takenAt: Date }> {
      return oneRow(db, moment, 'select pg_export_snapshot() as snapshot, now() as taken_at');
    },

    async serverMajor(): Promise<number> {
      const sql = "select current_setting('server_version_num')::integer / 10000 as major";
      return (await oneRow(db, server, sql)).major;
    },

    /** The last one that the database has; null where it has none. */
    async lastMigration(): Promise<string | null> {
      const last = await firstRow(db, named, 'select name::text from knex_migrations order by id desc limit 1');
      return last?.name ?? null;
    },

    /** Of the code that runs here. */
    knownMigrations: migrationNames,

    /** Without those that extensions have. */
    async listTables(): Promise<string[]> {
      const tables = await rows(
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
      return (await oneRow(db, total, 'select count(*) as count from ??', [table])).count;
    },

    /** What tells this installation from others, and its restored copies not from it: the time of its first migration. */
    async installation(): Promise<string | null> {
      const first = await firstRow(db, migrated, 'select migration_time from knex_migrations order by id limit 1');
      return first?.migrationTime.toISOString() ?? null;
    },

    /** Of keys of the store those that are volumes of exports. */
    async volumesOfExports(keys: readonly string[]): Promise<Set<string>> {
      const table = await oneRow(db, relation, "select to_regclass('public.export_volumes')::text as name");
      // A backup may be made before the migrations of this version.
      if (table.name === null) return new Set();
      const volumes = await ExportVolumeModel.table(db)
        .whereIn('blobKey', [...keys])
        .select('blobKey');
      return new Set(volumes.map(({ blobKey }) => blobKey));
    },

    /** What has to be in the store: the rule of `originals`, without what only a claim keeps. In order, within a transaction. */
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
        const originals = await rows(db, original, `fetch ${KEYS_AT_ONCE} from originals`);
        if (originals.length === 0) break;
        yield originals.map(({ key }) => key);
      }
      await db.raw('close originals');
    },

    /** Who would write into this database while it is restored; also a restore that was killed, and has not quite ended. */
    async listUsers(): Promise<string[]> {
      const users = await rows(
        db,
        named,
        `select distinct application_name as name from pg_stat_activity
         where datname = current_database() and application_name in ('api', 'worker', 'pg_restore') order by 1`,
      );
      return users.map(({ name }) => name);
    },

    /** Which backup is being restored here; null when none is. */
    async findRestore(): Promise<string | null> {
      const marker = await oneRow(db, relation, "select to_regclass('public.backup_restore')::text as name");
      if (marker.name === null) return null;
      return (await oneRow(db, restore, 'select backup from backup_restore')).backup;
    },

    async beginRestore(backup: string): Promise<void> {
      await db.raw('create table backup_restore as select ?::text as backup', [backup]);
    },

    async endRestore(): Promise<void> {
      await db.raw('drop table backup_restore');
    },
  };
}

/** Says that a restore is under way; no backup has it. */
export const restoreMarker = 'backup_restore';
