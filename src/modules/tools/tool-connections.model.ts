import type { Knex } from 'knex';
import { tableModel } from '#src/adapters/postgres/base-model.ts';
import {
  integerColumn,
  type SqlRow,
  textArrayColumn,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { NewCredentials, OAuthGrant } from '#src/modules/credentials/credentials.model.ts';

export class ToolConnectionModel extends tableModel('tool_connections', {
  id: uuidColumn(),
  orgId: uuidColumn(),
  provider: textColumn(),
  status: textColumn<'active' | 'needs_reauth'>(),
  credentials: textColumn(),
  scopes: textArrayColumn(),
  expiresAt: timestampColumn().nullable(),
  generation: integerColumn(),
  refreshUntil: timestampColumn().nullable(),
  createdAt: timestampColumn(),
  updatedAt: timestampColumn(),
}) {}

export type ToolConnection = SqlRow<typeof ToolConnectionModel>;

export type ApiKeyCredentials = { kind: 'api_key'; apiKey: string };

export type ToolProviderCredentials = ApiKeyCredentials | OAuthGrant;

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
