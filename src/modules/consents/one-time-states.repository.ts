import type { Db } from '#src/ports/database.ts';

const lifetimeMinutes = 10;

/** Each purpose has a table of its own, with what it remembers beside these columns. */
export type TableOfStates = 'oauth_states' | 'sign_in_states';

/** `codeVerifier` is sealed for the row. */
export type StateRow<Facts> = Facts & { stateHash: Buffer; codeVerifier: string };

type TakenRow<Facts> = StateRow<Facts> & { isFresh: boolean };

/** States are known by their hashes only. */
export function createOneTimeStatesRepository<Facts extends object>(db: Db, table: TableOfStates) {
  return {
    async insert(row: StateRow<Facts>): Promise<void> {
      const expiresAt = db.raw('now() + make_interval(mins => ?)', [lifetimeMinutes]);
      await db(table).insert({ ...row, expiresAt });
    },

    /** Whoever gets it is the only one who ever does. Undefined when there is none. */
    async take(stateHash: Buffer): Promise<TakenRow<Facts> | undefined> {
      const { rows } = await db.raw<{ rows: TakenRow<Facts>[] }>(
        'delete from ?? where state_hash = ? returning *, expires_at > now() as is_fresh',
        [table, stateHash],
      );
      return rows[0];
    },

    async deleteExpired(): Promise<void> {
      await db(table).where('expiresAt', '<', db.fn.now()).delete();
    },
  };
}
