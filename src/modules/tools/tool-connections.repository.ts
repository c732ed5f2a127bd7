import type { NewCredentials } from '#src/modules/credentials/stored-credentials.service.ts';
import type { Db } from '#src/ports/database.ts';
import type { ToolConnection } from './tool-connections.model.ts';

export function createToolConnectionsRepository(db: Db) {
  const connections = () => db<ToolConnection>('tool_connections');
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
  };
}
