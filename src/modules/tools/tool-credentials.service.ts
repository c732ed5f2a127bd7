import type { Knex } from 'knex';
import type { Logger } from 'pino';
import { tools } from '#src/domain/agents/tools.ts';
import { AppError, appError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { CredentialsService, OAuthGrant } from '#src/modules/credentials/credentials.service.ts';
import type { OAuthClient, OAuthProvider } from '#src/ports/identity.ts';
import type { ToolCredentials } from '#src/ports/tools.ts';
import type { ProviderAccesses } from './provider-access.ts';
import type { ApiKey, Credentials, ToolConnection } from './tool-connections.model.ts';
import { createToolConnectionsRepository } from './tool-connections.repository.ts';

/** Calls providers of tools with the credentials of connections. */
export function createToolCredentials(deps: {
  db: Knex;
  credentials: CredentialsService<ToolConnection, ApiKey>;
}): ToolCredentials {
  const repository = createToolConnectionsRepository(deps.db);

  return {
    async use({ orgId, requestId }, toolId, call) {
      const { provider, scopes } = needsOf(toolId);
      async function load(): Promise<ToolConnection> {
        const connection = await repository.find(orgId, provider);
        if (connection === undefined) throw appError('not_connected');
        return connection;
      }
      return deps.credentials.use({ load, requestId }, (credentials, connection) => {
        if (!scopes.every((scope) => connection.scopes.includes(scope))) throw appError('not_granted');
        return call(secretOf(credentials));
      });
    },
  };
}

/** Settings and callbacks of the credentials service for connections of tools. */
export function toolGrants(deps: {
  db: Knex;
  oauth: Pick<OAuthClient, 'revoke'>;
  access: ProviderAccesses;
  audit: AuditService;
  logger: Pick<Logger, 'warn'>;
}) {
  const { db, oauth, access, audit, logger } = deps;

  function settingsOf({ provider }: Pick<ToolConnection, 'provider'>): OAuthProvider {
    const how = access[provider];
    if (how?.kind !== 'oauth' || how.settings === null) throw appError('provider_not_configured');
    return how.settings;
  }

  return {
    settingsOf,

    async onRefused(trx: Knex, { id, orgId, provider }: ToolConnection, requestId: string): Promise<void> {
      const entry = { orgId, actorId: null, action: 'tool.needs_reauth', target: id, requestId };
      await audit.record(trx, { ...entry, detail: { provider } });
    },

    /** Revokes the grant of a deleted connection. If the user connected again, that may be the same grant: it stays. */
    async onUnwanted({ orgId, provider }: ToolConnection, { accessToken, refreshToken }: OAuthGrant): Promise<void> {
      if ((await createToolConnectionsRepository(db).find(orgId, provider)) !== undefined) return;
      await oauth.revoke(settingsOf({ provider }), refreshToken ?? accessToken).catch((error: unknown) => {
        logger.warn({ msg: 'a grant could not be revoked', provider, code: error instanceof AppError && error.code });
      });
    },
  };
}

function needsOf(toolId: string): { provider: string; scopes: string[] } {
  const tool = tools.find(({ id }) => id === toolId);
  if (tool === undefined || tool.provider === null) throw new Error(`${toolId} needs no connection`);
  return { provider: tool.provider, scopes: tool.actions.flatMap(({ scopes }) => scopes) };
}

function secretOf(credentials: Credentials): string {
  return credentials.kind === 'oauth' ? credentials.accessToken : credentials.apiKey;
}
