import type { Knex } from 'knex';
import type { NewCredentials } from '#src/modules/credentials/credentials.model.ts';
import { type ToolConnection, ToolConnectionModel } from './tool-connections.model.ts';

export function createToolConnectionsRepository(db: Knex) {
  const next = { generation: db.raw('generation + 1'), refreshUntil: null, updatedAt: db.fn.now() };

  return {
    async list(orgId: string): Promise<ToolConnection[]> {
      return ToolConnectionModel.query(db).where({ orgId });
    },

    async find(orgId: string, provider: string): Promise<ToolConnection | undefined> {
      return ToolConnectionModel.query(db).findOne({ orgId, provider });
    },

    async insert(connection: Pick<ToolConnection, 'id' | 'orgId' | 'provider'> & NewCredentials): Promise<void> {
      await ToolConnectionModel.query(db).insert({ ...connection, status: 'active' });
    },

    /** Of an administrator, who makes it work again whatever was before. */
    async replace({ orgId, id }: ToolConnection, fresh: NewCredentials): Promise<void> {
      await ToolConnectionModel.query(db)
        .where({ orgId, id })
        .patch({ ...fresh, ...next, status: 'active' });
    },

    async remove(orgId: string, provider: string): Promise<ToolConnection | undefined> {
      const [removed] = await ToolConnectionModel.query(db).where({ orgId, provider }).delete().returning('*');
      return removed;
    },
  };
}
