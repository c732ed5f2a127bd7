import type { Knex } from 'knex';
import type { Statements } from './shapes.ts';

/** Lends a connection of the pool to `work`, whose statements are in no transaction. */
export async function withOwnConnection(db: Knex, work: (own: Statements) => Promise<void>): Promise<void> {
  const connection = await db.client.acquireConnection();
  const raw = (sql: string, bindings: readonly Knex.RawBinding[] = []) => db.raw(sql, bindings).connection(connection);
  try {
    await work({ raw: raw as Knex['raw'] });
  } finally {
    await db.client.releaseConnection(connection);
  }
}
