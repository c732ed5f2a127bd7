import { expect } from 'chai';
import { onConnectionOf } from '#src/adapters/postgres/borrowed-connection.ts';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import type { Db } from '#src/ports/database.ts';
import { createTestDatabase } from '#test/support/services.ts';

describe('a connection that a transaction lends', () => {
  let database: Awaited<ReturnType<typeof createTestDatabase>>;
  let db: Db;
  /** Nobody else uses its pool. */
  before(async () => {
    database = await createTestDatabase();
    db = createDatabase({ url: database.url, maxConnections: 5, applicationName: 'test' });
  });
  after(async () => {
    await db.destroy();
    await database.drop();
  });

  async function connectionOf(by: Db): Promise<number> {
    const { rows } = await by.raw<{ rows: [{ pid: number }] }>('select pg_backend_pid() as pid');
    return rows[0].pid;
  }

  it('is what reads of the pool run on, and not those that come when it is given back', async () => {
    await db.transaction(async (trx) => {
      const own = await connectionOf(trx);
      const { promise, resolve } = Promise.withResolvers<void>();
      let late: Promise<number> | undefined;
      await onConnectionOf(trx, async () => {
        expect(await connectionOf(db)).equal(own);
        late = promise.then(() => connectionOf(db));
      });
      resolve();
      expect(await late).not.equal(own);
    });
  });

  it('goes back to the pool after a late read, too', async () => {
    const { pool } = db.client as { pool: { numUsed(): number } };
    const { promise, resolve } = Promise.withResolvers<void>();
    let late: Promise<number> | undefined;
    await db.transaction(async (trx) => {
      await onConnectionOf(trx, async () => {
        late = promise.then(() => connectionOf(db));
      });
    });
    const before = pool.numUsed();
    resolve();
    await late;
    expect(pool.numUsed()).most(before);
  });

  it('carries no transaction of its own', async () => {
    let refusal: unknown;
    await db.transaction(async (trx) => {
      await onConnectionOf(trx, async () => {
        const begin = async () => db.transaction(async () => undefined);
        refusal = await begin().catch((error: unknown) => error);
      });
    });
    expect(String(refusal)).contain('cannot begin on a connection that is lent');
  });
});
