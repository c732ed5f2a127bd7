import type { Knex } from 'knex';
import { appError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { CredentialsService } from '#src/modules/credentials/credentials.service.ts';
import type {
  ConnectionUse,
  Connector,
  ConnectorAccess,
  ConnectorAccesses,
  ConnectorCredentials,
} from '#src/ports/connectors.ts';
import type { Connection, StoredKeys } from './connections.model.ts';
import { createConnectionsRepository } from './connections.repository.ts';
import { accessOf } from './connector-access.ts';

/** Calls providers with the credentials of connections. */
export function createConnectorCredentials(deps: {
  db: Knex;
  access: ConnectorAccesses;
  credentials: CredentialsService<Connection, StoredKeys>;
}) {
  const { db, access, credentials: service } = deps;

  async function use<Result>(
    { orgId, connectionId, requestId }: ConnectionUse,
    call: (access: ConnectorAccess, connector: Connector) => Promise<Result>,
    { isTrial = false } = {},
  ): Promise<Result> {
    async function load(): Promise<Connection> {
      const connection = await createConnectionsRepository(db).find(orgId, connectionId);
      if (connection === undefined) throw appError('connection_not_found');
      return connection;
    }
    return service.use({ load, requestId, isTrial }, (credentials, row) =>
      call(accessOf(row, credentials), access.connectors[row.provider]),
    );
  }

  return {
    use: (of, call) => use(of, call),

    /** Whether the provider accepts what is stored, whatever was known of that. Throws as `use` does. */
    async check(of: ConnectionUse): Promise<void> {
      await use(of, (opened, connector) => connector.check(opened), { isTrial: true });
    },
  } satisfies ConnectorCredentials & { check: (of: ConnectionUse) => Promise<void> };
}

export type ConnectorCredentialsService = ReturnType<typeof createConnectorCredentials>;

/** Records that a provider has refused a connection. */
export function createRefusalNote({ audit }: { audit: AuditService }) {
  return async (trx: Knex, connection: Connection, requestId: string): Promise<void> => {
    const { id, orgId, provider } = connection;
    const lastError = lastErrorOf(appError('needs_reauth'));
    await createConnectionsRepository(trx).setState(connection, { status: 'needs_reauth', lastError });
    const entry = { orgId, actorId: null, action: 'connection.needs_reauth', target: id, requestId };
    await audit.record(trx, { ...entry, detail: { provider } });
  };
}

export function lastErrorOf({ code, message }: { code: string; message: string }): string {
  return `${code}: ${message}`;
}
