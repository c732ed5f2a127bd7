import type { Knex } from 'knex';
import { rows } from '#src/adapters/postgres/shapes.ts';
import {
  type CredentialsState,
  type CredentialsTable,
  type NewCredentials,
  type StoredCredentials,
  storedCredentials,
} from './credentials.model.ts';

/** Changes of the credentials of rows, and of nothing else. */
export function createCredentialsRepository(db: Knex, table: CredentialsTable) {
  /** Of all organizations, in the order of their ids. */
  const some = (after: string, limit: number) =>
    db(table).where('id', '>', after).orderBy('id').limit(limit).select(Object.keys(storedCredentials.columns));
  const inState = ({ orgId, id, generation }: CredentialsState) => db(table).where({ orgId, id, generation });

  return {
    /** Nobody else refreshes these tokens for so long. False when somebody does, or they are others by now. */
    async claimRefresh(state: CredentialsState, leaseSeconds: number): Promise<boolean> {
      const claimed = await inState(state)
        .whereRaw('(refresh_until is null or refresh_until < now())')
        .update({ refreshUntil: db.raw('now() + make_interval(secs => ?)', [leaseSeconds]) });
      return claimed > 0;
    },

    async endRefresh(state: CredentialsState): Promise<void> {
      await inState(state).update({ refreshUntil: null });
    },

    /** False when the connection was made anew, or is gone. */
    async storeRefreshed(state: CredentialsState, fresh: NewCredentials): Promise<boolean> {
      const next = { generation: db.raw('generation + 1'), refreshUntil: null, updatedAt: db.fn.now() };
      return (await inState(state).update({ ...fresh, ...next })) > 0;
    },

    /** False when it is known already, or was made anew. */
    async markRefused(state: CredentialsState): Promise<boolean> {
      const marked = await inState(state)
        .whereNot({ status: 'needs_reauth' })
        .update({ status: 'needs_reauth', refreshUntil: null, updatedAt: db.fn.now() });
      return marked > 0;
    },

    async isThere({ orgId, id }: Pick<CredentialsState, 'orgId' | 'id'>): Promise<boolean> {
      return (await db(table).where({ orgId, id }).first('id')) !== undefined;
    },

    /** The same credentials, sealed by another key. */
    async reseal({ orgId, id, credentials }: StoredCredentials, resealed: string): Promise<void> {
      await db(table).where({ orgId, id, credentials }).update({ credentials: resealed });
    },

    /** Some of all organizations. */
    async list(after: string, limit: number): Promise<StoredCredentials[]> {
      return rows(db, storedCredentials, some(after, limit));
    },

    /** Some whose credentials this key has not sealed, of all organizations. */
    async listSealedByOthers(keyId: string, after: string, limit: number): Promise<StoredCredentials[]> {
      const sealedByOthers = some(after, limit).whereRaw('not starts_with(credentials, ?)', [`${keyId}:`]);
      return rows(db, storedCredentials, sealedByOthers);
    },
  };
}
