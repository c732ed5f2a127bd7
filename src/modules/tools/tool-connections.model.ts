import type { Knex } from 'knex';
import { model } from '#src/adapters/postgres/base-model.ts';
import { integer, type Row, text, textArray, timestamp, uuid } from '#src/adapters/postgres/shapes.ts';
import type { NewCredentials, OAuthGrant } from '#src/modules/credentials/credentials.model.ts';

export class ToolConnectionModel extends model('tool_connections', {
  id: uuid(),
  orgId: uuid(),
  provider: text(),
  status: text<'active' | 'needs_reauth'>(),
  credentials: text(),
  scopes: textArray(),
  expiresAt: timestamp().nullable(),
  generation: integer(),
  refreshUntil: timestamp().nullable(),
  createdAt: timestamp(),
  updatedAt: timestamp(),
}) {}

/** The connection of an organization to a tool provider; at most one per provider. */
export type ToolConnection = Row<typeof ToolConnectionModel>;

export type ApiKeyCredentials = { kind: 'api_key'; apiKey: string };

export type ProviderCredentials = ApiKeyCredentials | OAuthGrant;

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
