import { readdirSync } from 'node:fs';
import type { Knex } from 'knex';
import knex from 'knex';
import { type ConnectionOptions, knexConfig } from '../../../knexfile.ts';

/** Timeout of SQL statements. Work that takes longer is done in batches. */
const TIMEOUT_MS = 60_000;

export function createDatabase(options: Omit<ConnectionOptions, 'timeoutMs'>): Knex {
  return knex(knexConfig({ ...options, timeoutMs: TIMEOUT_MS }));
}

const directory = new URL('../../../migrations/', import.meta.url);

const LOCK = 7_350;

/**
 * Migrates the schema under an advisory lock, which ends with the process; knex's own lock survives a crash, so it is
 * reset. `isRestoring` allows a database whose restore is incomplete.
 */
export async function migrateDatabase(
  databaseUrl: string,
  { isRestoring = false }: { isRestoring?: boolean } = {},
): Promise<string[]> {
  const db = knex(knexConfig({ url: databaseUrl, maxConnections: 2 }));
  try {
    const session = await db.client.acquireConnection();
    try {
      await session.query('select pg_advisory_lock($1)', [LOCK]);
      const { rows } = await session.query("select to_regclass('public.backup_restore') is not null as is_half");
      if (rows[0].is_half && !isRestoring) {
        throw new Error('A restore of this database was not completed: run the same restore command again.');
      }
      await db.migrate.forceFreeMigrationsLock();
      const [, applied] = (await db.migrate.latest()) as [number, string[]];
      await session.query('select pg_advisory_unlock($1)', [LOCK]);
      return applied;
    } finally {
      await db.client.releaseConnection(session);
    }
  } finally {
    await db.destroy();
  }
}

export function listMigrationNames(): string[] {
  return readdirSync(directory)
    .filter((name) => name.endsWith('.ts'))
    .sort();
}
