import type { Knex } from 'knex';
import { withoutUndefinedFields } from '#src/adapters/postgres/base-model.ts';
import type { ConnectorProvider } from '#src/domain/documents/connector-providers.ts';
import type { NewCredentials } from '#src/modules/credentials/credentials.model.ts';
import { type Connection, ConnectionModel } from './connections.model.ts';

type Key = Pick<Connection, 'orgId' | 'id'>;
type Grantee = Pick<Connection, 'orgId' | 'userId' | 'provider' | 'accountId'>;
type NewConnection = Grantee & Pick<Connection, 'id' | 'displayName' | 'config'> & NewCredentials;
type Changes = Partial<Pick<Connection, 'displayName' | 'config' | 'accountId'> & NewCredentials>;

export function createConnectionsRepository(db: Knex) {
  const connections = () => ConnectionModel.table(db);
  const working = {
    generation: db.raw('generation + 1'),
    refreshUntil: null,
    status: 'active' as const,
    lastError: null,
  };

  return {
    async listOf({ orgId, userId }: Pick<Connection, 'orgId' | 'userId'>): Promise<Connection[]> {
      return connections().where({ orgId, userId }).orderBy(['createdAt', 'id']);
    },

    find(orgId: string, id: string): Promise<Connection | undefined> {
      return connections().where({ orgId, id }).first();
    },

    async lock(orgId: string, id: string): Promise<Connection | undefined> {
      return connections().where({ orgId, id }).forNoKeyUpdate().first();
    },

    findGrant({ orgId, userId, provider, accountId }: Grantee): Promise<Connection | undefined> {
      return connections().where({ orgId, userId, provider, accountId }).first();
    },

    async isAccountUsed(provider: ConnectorProvider, accountId: string, except?: string): Promise<boolean> {
      const query = connections().where({ provider, accountId });
      if (except !== undefined) query.whereNot({ id: except });
      return (await query.first('id')) !== undefined;
    },

    async count(orgId: string): Promise<number> {
      return ConnectionModel.query(db).where({ orgId }).resultSize();
    },

    async insert(connection: NewConnection): Promise<void> {
      await ConnectionModel.query(db).insert({ ...connection, status: 'active' });
    },

    /** Updates a connection. New `credentials` make it active, because the caller has checked them at the provider. */
    async update({ orgId, id }: Key, { credentials, ...others }: Changes): Promise<void> {
      const fresh = credentials === undefined ? {} : { credentials, ...working };
      await ConnectionModel.query(db)
        .where({ orgId, id })
        .patch({ ...withoutUndefinedFields(others), ...fresh, updatedAt: db.fn.now() });
    },

    /**
     * Increments a connection's version, and so its ETag: before its credentials are checked at the provider, or when
     * an update changes no other column.
     */
    async incrementVersion({ orgId, id }: Key): Promise<void> {
      await connections().where({ orgId, id }).increment('version');
    },

    async setState({ orgId, id }: Key, state: Pick<Connection, 'status' | 'lastError'>): Promise<void> {
      await connections()
        .where({ orgId, id })
        .update({ ...state, updatedAt: db.fn.now() });
    },

    async remove({ orgId, id }: Key): Promise<void> {
      await connections().where({ orgId, id }).delete();
    },
  };
}
