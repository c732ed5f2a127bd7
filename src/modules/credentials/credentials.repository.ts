import type { Db } from '#src/ports/database.ts';
import type { CredentialsState, NewCredentials, StoredCredentials } from './stored-credentials.service.ts';

/** Tables whose rows hold sealed credentials. */
export type CredentialsTable = 'tool_connections' | 'connections';

/** Changes of the credentials of rows, and of nothing else. */
export function createCredentialsRepository<Row extends StoredCredentials>(db: Db, table: CredentialsTable) {
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
    async list(after: string, limit: number): Promise<Row[]> {
      return db(table).where('id', '>', after).orderBy('id').limit(limit);
    },

    /** Some whose credentials this key has not sealed, of all organizations. */
    async listSealedByOthers(keyId: string, after: string, limit: number): Promise<Row[]> {
      return db(table)
        .whereRaw('not starts_with(credentials, ?)', [`${keyId}:`])
        .where('id', '>', after)
        .orderBy('id')
        .limit(limit);
    },
  };
}
