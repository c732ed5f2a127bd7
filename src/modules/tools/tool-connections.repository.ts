import type { Db } from '#src/ports/database.ts';
import type { ConnectionState, NewCredentials, ToolConnection } from './tool-connections.model.ts';

export function createToolConnectionsRepository(db: Db) {
  const connections = () => db<ToolConnection>('tool_connections');
  const inState = ({ orgId, id, generation }: ConnectionState) =>
    db('tool_connections').where({ orgId, id, generation });
  const next = { generation: db.raw('generation + 1'), refreshUntil: null, updatedAt: db.fn.now() };

  return {
    async list(orgId: string): Promise<ToolConnection[]> {
      return connections().where({ orgId });
    },

    find(orgId: string, provider: string): Promise<ToolConnection | undefined> {
      return connections().where({ orgId, provider }).first();
    },

    async insert(connection: Pick<ToolConnection, 'id' | 'orgId' | 'provider'> & NewCredentials): Promise<void> {
      await db('tool_connections').insert({ ...connection, status: 'active' });
    },

    /** Of an administrator, who makes it work again whatever was before. */
    async replace({ orgId, id }: ToolConnection, fresh: NewCredentials): Promise<void> {
      await db('tool_connections')
        .where({ orgId, id })
        .update({ ...fresh, ...next, status: 'active' });
    },

    async remove(orgId: string, provider: string): Promise<ToolConnection | undefined> {
      const [removed] = await connections().where({ orgId, provider }).delete().returning('*');
      return removed;
    },

    /** Nobody else refreshes these tokens for so long. False when somebody does, or they are others by now. */
    async claimRefresh(state: ConnectionState, leaseSeconds: number): Promise<boolean> {
      const claimed = await inState(state)
        .whereRaw('(refresh_until is null or refresh_until < now())')
        .update({ refreshUntil: db.raw('now() + make_interval(secs => ?)', [leaseSeconds]) });
      return claimed > 0;
    },

    async endRefresh(state: ConnectionState): Promise<void> {
      await inState(state).update({ refreshUntil: null });
    },

    /** False when the connection was made anew, or is gone. */
    async storeRefreshed(state: ConnectionState, fresh: NewCredentials): Promise<boolean> {
      return (await inState(state).update({ ...fresh, ...next })) > 0;
    },

    /** False when it is known already, or was made anew. */
    async markRefused(state: ConnectionState): Promise<boolean> {
      const marked = await inState(state)
        .where({ status: 'active' })
        .update({ status: 'needs_reauth', refreshUntil: null, updatedAt: db.fn.now() });
      return marked > 0;
    },

    /** The same credentials, sealed by another key. */
    async reseal({ orgId, id, credentials }: ToolConnection, resealed: string): Promise<void> {
      await connections().where({ orgId, id, credentials }).update({ credentials: resealed });
    },

    /** Some whose credentials this key has not sealed, of all organizations. */
    async listSealedByOthers(keyId: string, after: string, limit: number): Promise<ToolConnection[]> {
      return connections()
        .whereRaw('not starts_with(credentials, ?)', [`${keyId}:`])
        .where('id', '>', after)
        .orderBy('id')
        .limit(limit);
    },
  };
}
