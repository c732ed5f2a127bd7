import { AsyncLocalStorage } from 'node:async_hooks';
import type { Knex } from 'knex';
import type { Db } from '#src/ports/database.ts';

const borrowed = new AsyncLocalStorage<unknown>();

/**
 * Runs reads on the connection of a transaction, though they were written for the pool: whoever holds a row and would
 * wait for another connection may wait for those who hold them all and wait for the row. Nothing in `work` may begin a
 * transaction.
 */
export async function onConnectionOf<Result>(trx: Db, work: () => Promise<Result>): Promise<Result> {
  return borrowed.run(await trx.client.acquireConnection(), work);
}

/** Lets queries of a pool run on a connection that is lent to them by `onConnectionOf`. */
export function lendConnections(db: Knex): void {
  const pool: Knex.Client = db.client;
  const [acquire, release] = [pool.acquireConnection.bind(pool), pool.releaseConnection.bind(pool)];
  pool.acquireConnection = () => {
    const connection = borrowed.getStore();
    return connection === undefined ? acquire() : Promise.resolve(connection);
  };
  pool.releaseConnection = (connection: unknown) =>
    connection === borrowed.getStore() ? Promise.resolve() : release(connection);
}
