import type { Db } from '#src/ports/database.ts';
import type { Consent, ConsentRow } from './consents.model.ts';

const lifetimeMinutes = 10;

/** States are known by their hashes only. */
export function createConsentsRepository(db: Db) {
  return {
    async insert(row: ConsentRow): Promise<void> {
      const expiresAt = db.raw('now() + make_interval(mins => ?)', [lifetimeMinutes]);
      await db('oauth_states').insert({ ...row, expiresAt });
    },

    /** Whoever gets it is the only one who ever does. Undefined when there is none. */
    async take(stateHash: Buffer): Promise<(ConsentRow & Consent) | undefined> {
      const [row] = await db('oauth_states')
        .where({ stateHash })
        .delete()
        .returning<(ConsentRow & Consent)[]>(['oauth_states.*', db.raw('expires_at > now() as is_fresh')]);
      return row;
    },

    async deleteExpired(): Promise<void> {
      await db('oauth_states').where('expiresAt', '<', db.fn.now()).delete();
    },
  };
}
