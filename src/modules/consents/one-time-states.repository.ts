import type { Knex } from 'knex';
import { boolean, type Column, type Columns } from '#src/adapters/postgres/columns.ts';
import { firstRow, shape } from '#src/adapters/postgres/shapes.ts';

const lifetimeMinutes = 10;

/** `codeVerifier` is sealed for the row. */
export type StateRow<Facts> = Facts & { stateHash: Buffer; codeVerifier: string };

type TakenRow<Facts> = StateRow<Facts> & { isFresh: boolean };

/** The model of a purpose's table, whose columns are its facts and those of every state. */
export type StatesModel<Facts> = {
  tableName: string;
  columns: Columns & { readonly [Name in keyof StateRow<Facts>]: Column<StateRow<Facts>[Name]> };
};

/** States are known by their hashes only. */
export function createOneTimeStatesRepository<Facts extends object>(
  db: Knex,
  { tableName, columns }: StatesModel<Facts>,
) {
  const taken = shape({ ...columns, isFresh: boolean() });

  return {
    async insert(row: StateRow<Facts>): Promise<void> {
      const expiresAt = db.raw('now() + make_interval(mins => ?)', [lifetimeMinutes]);
      await db(tableName).insert({ ...row, expiresAt });
    },

    /** Reads a state and leaves it usable. */
    async find(stateHash: Buffer): Promise<TakenRow<Facts> | undefined> {
      const sql = 'select *, expires_at > now() as is_fresh from ?? where state_hash = ?';
      const row: unknown = await firstRow(db, taken, sql, [tableName, stateHash]);
      return row as TakenRow<Facts> | undefined;
    },

    /** Whoever gets it is the only one who ever does. Undefined when there is none. */
    async take(stateHash: Buffer): Promise<TakenRow<Facts> | undefined> {
      const sql = 'delete from ?? where state_hash = ? returning *, expires_at > now() as is_fresh';
      const row: unknown = await firstRow(db, taken, sql, [tableName, stateHash]);
      // The compiler does not infer facts from the columns of a type parameter; StatesModel says that they are the same.
      return row as TakenRow<Facts> | undefined;
    },

    async deleteExpired(): Promise<void> {
      await db(tableName).where('expiresAt', '<', db.fn.now()).delete();
    },
  };
}
