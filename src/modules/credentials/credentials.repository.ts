import type { Knex } from 'knex';
import { rows } from '#src/adapters/postgres/shapes.ts';
import {
  type CredentialsState,
  type CredentialsTable,
  type NewCredentials,
  type StoredCredentials,
  storedCredentials,
} from './credentials.model.ts';

/** Reads and changes the credentials in rows of a table; other columns belong to the table's module. */
export function createCredentialsRepository(db: Knex, table: CredentialsTable) {
  const page = (after: string, limit: number) =>
    db(table).where('id', '>', after).orderBy('id').limit(limit).select(Object.keys(storedCredentials.columns));
  const inState = ({ orgId, id, generation }: CredentialsState) => db(table).where({ orgId, id, generation });

  return {
    /** Takes the lease to refresh tokens. Returns false if another process has it, or the credentials have changed. */
    async claimRefresh(state: CredentialsState, leaseSeconds: number): Promise<boolean> {
      const claimed = await inState(state)
        .whereRaw('(refresh_until is null or refresh_until < now())')
        .update({ refreshUntil: db.raw('now() + make_interval(secs => ?)', [leaseSeconds]) });
      return claimed > 0;
    },

    async endRefresh(state: CredentialsState): Promise<void> {
      await inState(state).update({ refreshUntil: null });
    },

    /** Returns false if the credentials have changed, or their row was deleted. */
    async storeRefreshed(state: CredentialsState, fresh: NewCredentials): Promise<boolean> {
      const next = { generation: db.raw('generation + 1'), refreshUntil: null, updatedAt: db.fn.now() };
      return (await inState(state).update({ ...fresh, ...next })) > 0;
    },

    /** Returns false if the row is marked as `needs_reauth` already, or its credentials have changed. */
    async markRefused(state: CredentialsState): Promise<boolean> {
      const marked = await inState(state)
        .whereNot({ status: 'needs_reauth' })
        .update({ status: 'needs_reauth', refreshUntil: null, updatedAt: db.fn.now() });
      return marked > 0;
    },

    async isThere({ orgId, id }: Pick<CredentialsState, 'orgId' | 'id'>): Promise<boolean> {
      return (await db(table).where({ orgId, id }).first('id')) !== undefined;
    },

    /** Stores the same credentials, encrypted with another key; the generation stays. */
    async reencrypt({ orgId, id, credentials }: StoredCredentials, reencrypted: string): Promise<void> {
      await db(table).where({ orgId, id, credentials }).update({ credentials: reencrypted });
    },

    /** Lists a page of the credentials of all organizations. */
    async list(after: string, limit: number): Promise<StoredCredentials[]> {
      return rows(db, storedCredentials, page(after, limit));
    },

    /** Lists a page of the credentials, of all organizations, that another encryption key than this one encrypted. */
    async listEncryptedByOthers(keyId: string, after: string, limit: number): Promise<StoredCredentials[]> {
      const encryptedByOthers = page(after, limit).whereRaw('not starts_with(credentials, ?)', [`${keyId}:`]);
      return rows(db, storedCredentials, encryptedByOthers);
    },
  };
}
