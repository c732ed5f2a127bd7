import { readdirSync } from 'node:fs';
import knex from 'knex';
import { knexConfig } from '../../../knexfile.ts';

const directory = new URL('../../../migrations/', import.meta.url);

/** Of the session that migrates; the number is ours alone in our database. */
const TURN = 7_350;

/**
 * Brings the schema of a database up to date. Who comes while another does so waits, and finds it done. The turn is a
 * session's, so that it ends with a process that is killed; the mark that knex leaves in a table does not, and is wiped
 * away by the next one.
 * @param options.isRestoring whose database is half of a backup until it has ended; anybody else is refused there
 * @returns the migrations that were made
 */
export async function migrate(
  databaseUrl: string,
  { isRestoring = false }: { isRestoring?: boolean } = {},
): Promise<string[]> {
  const db = knex(knexConfig({ url: databaseUrl, maxConnections: 2 }));
  try {
    const turn = await db.client.acquireConnection();
    try {
      await turn.query('select pg_advisory_lock($1)', [TURN]);
      const { rows } = await turn.query("select to_regclass('public.backup_restore') is not null as is_half");
      if (rows[0].is_half && !isRestoring) {
        throw new Error('A restore was begun here and has not come to its end: the same command goes on with it.');
      }
      await db.migrate.forceFreeMigrationsLock();
      const [, made] = (await db.migrate.latest()) as [number, string[]];
      await turn.query('select pg_advisory_unlock($1)', [TURN]);
      return made;
    } finally {
      await db.client.releaseConnection(turn);
    }
  } finally {
    await db.destroy();
  }
}

/** Of this version, in their order. */
export function migrationNames(): string[] {
  return readdirSync(directory)
    .filter((name) => name.endsWith('.ts'))
    .sort();
}
