import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import knex from 'knex';

const directory = fileURLToPath(new URL('../../../migrations', import.meta.url));

/** Brings the schema of a database up to date. knex takes a lock, so that two starters do not collide. */
export async function migrate(databaseUrl: string): Promise<void> {
  // What knex would print is thrown as well.
  const silent = () => undefined;
  const db = knex({
    client: 'pg',
    connection: databaseUrl,
    pool: { min: 0, max: 2 },
    log: { warn: silent, error: silent, deprecate: silent, debug: silent },
  });
  try {
    await db.migrate.latest({ directory, loadExtensions: ['.ts'] });
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
