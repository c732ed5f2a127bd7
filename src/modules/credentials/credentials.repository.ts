import type { Knex } from 'knex';
import { queryRows } from '#src/adapters/postgres/shapes.ts';
import {
  type CredentialsGenerationKey,
  type CredentialsTable,
  type NewCredentials,
  type StoredCredentials,
  storedCredentialsRowShape,
} from './credentials.model.ts';

export function createCredentialsRepository(db: Knex, table: CredentialsTable) {
  const page = (after: string, limit: number) =>
    db(table).where('id', '>', after).orderBy('id').limit(limit).select(Object.keys(storedCredentialsRowShape.columns));
  const inState = ({ orgId, id, generation }: CredentialsGenerationKey) => db(table).where({ orgId, id, generation });

  return {
    /**
     * Takes the lease to refresh OAuth tokens. Returns false if another process holds the lease or the credentials have
     * changed.
     */
    async claimRefresh(state: CredentialsGenerationKey, leaseSeconds: number): Promise<boolean> {
      const claimed = await inState(state)
        .whereRaw('(refresh_until is null or refresh_until < now())')
        .update({ refreshUntil: db.raw('now() + make_interval(secs => ?)', [leaseSeconds]) });
      return claimed > 0;
    },

    async endRefresh(state: CredentialsGenerationKey): Promise<void> {
      await inState(state).update({ refreshUntil: null });
    },

    /** Stores refreshed OAuth tokens. Returns false if the credentials have changed or their row was deleted. */
    async storeRefreshed(state: CredentialsGenerationKey, fresh: NewCredentials): Promise<boolean> {
      const next = { generation: db.raw('generation + 1'), refreshUntil: null, updatedAt: db.fn.now() };
      return (await inState(state).update({ ...fresh, ...next })) > 0;
    },

    /** Marks credentials as `needs_reauth`. Returns false if they are marked already or have changed. */
    async markRefused(state: CredentialsGenerationKey): Promise<boolean> {
      const marked = await inState(state)
        .whereNot({ status: 'needs_reauth' })
        .update({ status: 'needs_reauth', refreshUntil: null, updatedAt: db.fn.now() });
      return marked > 0;
    },

    async isThere({ orgId, id }: Pick<CredentialsGenerationKey, 'orgId' | 'id'>): Promise<boolean> {
      return (await db(table).where({ orgId, id }).first('id')) !== undefined;
    },

    async reencrypt({ orgId, id, credentials }: StoredCredentials, reencrypted: string): Promise<void> {
      await db(table).where({ orgId, id, credentials }).update({ credentials: reencrypted });
    },

    async list(after: string, limit: number): Promise<StoredCredentials[]> {
      return queryRows(db, storedCredentialsRowShape, page(after, limit));
    },

    async listEncryptedByOthers(keyId: string, after: string, limit: number): Promise<StoredCredentials[]> {
      const encryptedByOthers = page(after, limit).whereRaw('not starts_with(credentials, ?)', [`${keyId}:`]);
      return queryRows(db, storedCredentialsRowShape, encryptedByOthers);
    },
  };
}
