import type { Knex } from 'knex';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import { createTestDatabase } from './services.ts';

export type TestDatabase = { db: Knex };

/** For a suite: a migrated database of its own. It is empty until `before` has run. */
export function useTestDatabase(maxConnections = 5): TestDatabase {
  const own: Partial<TestDatabase & { drop(): Promise<void> }> = {};
  before(async () => {
    const { url, drop } = await createTestDatabase();
    Object.assign(own, { db: createDatabase({ url, maxConnections, applicationName: 'test' }), drop });
  });
  after(async () => {
    await own.db?.destroy();
    await own.drop?.();
  });
  return own as TestDatabase;
}

/** Whether a transaction waits for a lock of another. */
export async function isLockAwaited(db: Knex): Promise<boolean> {
  const { rows } = await db.raw<{ rows: unknown[] }>(
    `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  );
  return rows.length > 0;
}
