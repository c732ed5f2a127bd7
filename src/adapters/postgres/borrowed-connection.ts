import { AsyncLocalStorage } from 'node:async_hooks';
import type { Knex } from 'knex';
import type { Db } from '#src/ports/database.ts';

/** `inUse` counts the queries that have the connection from the loan: those that come later may get it from the pool. */
type Loan = { connection: unknown; isOver: boolean; inUse: number };

const borrowed = new AsyncLocalStorage<Loan>();

/**
 * Runs reads on the connection of a transaction, though they were written for the pool: whoever holds a row and would
 * wait for another connection may wait for those who hold them all and wait for the row. Nothing in `work` may begin a
 * transaction.
 */
export async function onConnectionOf<Result>(trx: Db, work: () => Promise<Result>): Promise<Result> {
  const loan: Loan = { connection: await trx.client.acquireConnection(), isOver: false, inUse: 0 };
  try {
    return await borrowed.run(loan, work);
  } finally {
    // A read that its work did not wait for would come into the transaction of whoever has the connection next.
    loan.isOver = true;
  }
}

/** Lets queries of a pool run on a connection that is lent to them by `onConnectionOf`. */
export function lendConnections(db: Knex): void {
  const pool: Knex.Client = db.client;
  const [acquire, release] = [pool.acquireConnection.bind(pool), pool.releaseConnection.bind(pool)];
  const begin = pool.transaction.bind(pool);
  const present = () => {
    const loan = borrowed.getStore();
    return loan === undefined || loan.isOver ? undefined : loan;
  };
  pool.acquireConnection = () => {
    const loan = present();
    if (loan === undefined) return acquire();
    loan.inUse += 1;
    return Promise.resolve(loan.connection);
  };
  pool.releaseConnection = (connection: unknown) => {
    const loan = borrowed.getStore();
    if (loan === undefined || loan.connection !== connection || loan.inUse === 0) return release(connection);
    loan.inUse -= 1;
    return Promise.resolve();
  };
  pool.transaction = (...args: Parameters<typeof begin>) => {
    // Its end would be that of the lender's, with the locks that are held there.
    if (present() !== undefined) throw new Error('a transaction cannot begin on a connection that is lent for reads');
    return begin(...args);
  };
}
