import { migrationNames } from '#src/adapters/postgres/migrate.ts';
import type { Db } from '#src/ports/database.ts';

const KEYS_AT_ONCE = 500;

export type BackupRepository = ReturnType<typeof createBackupRepository>;

export function createBackupRepository(db: Db) {
  return {
    /** A copy takes as long as it takes: what ends sleepers elsewhere would end the moment that is copied. */
    async takeTime(): Promise<void> {
      await db.raw('set local statement_timeout = 0');
      await db.raw('set local idle_in_transaction_session_timeout = 0');
    },

    /** The moment that this transaction sees, for others to see as well. */
    async exportSnapshot(): Promise<{ snapshot: string; takenAt: Date }> {
      const { rows } = await db.raw<{ rows: [{ snapshot: string; takenAt: Date }] }>(
        'select pg_export_snapshot() as snapshot, now() as taken_at',
      );
      return rows[0];
    },

    async serverMajor(): Promise<number> {
      const { rows } = await db.raw<{ rows: [{ version: number }] }>(
        "select current_setting('server_version_num')::integer / 10000 as version",
      );
      return rows[0].version;
    },

    /** The last one that the database has; null where it has none. */
    async lastMigration(): Promise<string | null> {
      const row = await db('knex_migrations').orderBy('id', 'desc').first<{ name: string } | undefined>('name');
      return row?.name ?? null;
    },

    /** Of the code that runs here. */
    knownMigrations: migrationNames,

    /** Without those that extensions have. */
    async listTables(): Promise<string[]> {
      const { rows } = await db.raw<{ rows: { name: string }[] }>(
        `select c.relname as name from pg_class c
         where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
           and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
         order by c.relname`,
      );
      return rows.map(({ name }) => name);
    },

    async countRows(table: string): Promise<number> {
      const { rows } = await db.raw<{ rows: [{ count: number }] }>('select count(*) as count from ??', [table]);
      return rows[0].count;
    },

    /** What tells this installation from others, and its restored copies not from it: the time of its first migration. */
    async installation(): Promise<string | null> {
      const first = await db('knex_migrations')
        .orderBy('id')
        .first<{ migrationTime: Date } | undefined>('migration_time');
      return first?.migrationTime.toISOString() ?? null;
    },

    /** Of keys of the store those that are volumes of exports. */
    async volumesOfExports(keys: readonly string[]): Promise<Set<string>> {
      const { rows: there } = await db.raw("select to_regclass('public.export_volumes') as name");
      // A backup may be made before the migrations of this version.
      if (there[0].name === null) return new Set();
      const rows = await db('export_volumes').whereIn('blob_key', keys).select<{ blobKey: string }[]>('blob_key');
      return new Set(rows.map(({ blobKey }) => blobKey));
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
        const { rows } = await db.raw<{ rows: { key: string }[] }>(`fetch ${KEYS_AT_ONCE} from originals`);
        if (rows.length === 0) break;
        yield rows.map(({ key }) => key);
      }
      await db.raw('close originals');
    },

    /** Who would write into this database while it is restored; also a restore that was killed, and has not quite ended. */
    async listUsers(): Promise<string[]> {
      const { rows } = await db.raw<{ rows: { name: string }[] }>(
        `select distinct application_name as name from pg_stat_activity
         where datname = current_database() and application_name in ('api', 'worker', 'pg_restore') order by 1`,
      );
      return rows.map(({ name }) => name);
    },

    /** Which backup is being restored here; null when none is. */
    async findRestore(): Promise<string | null> {
      const { rows } = await db.raw<{ rows: [{ marker: string | null }] }>(
        "select to_regclass('public.backup_restore')::text as marker",
      );
      if (rows[0].marker === null) return null;
      return (await db('backup_restore').first<{ backup: string }>('backup')).backup;
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
