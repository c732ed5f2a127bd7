import type { Knex } from 'knex';
import type { Logger } from 'pino';
import { v7 as uuidv7 } from 'uuid';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { allTools, type ToolProvider } from '#src/domain/agents/tools.ts';
import { AppError, appError, fieldError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type {
  FinishedOAuthConsent,
  OAuthConsentCallback,
  OAuthConsentCallbackResult,
  OAuthConsentsService,
} from '#src/modules/consents/consents.service.ts';
import type { CredentialStore, CredentialsService, OAuthGrant } from '#src/modules/credentials/credentials.service.ts';
import type { AccessRightsChangesService } from '#src/modules/organization/organization.service.ts';
import type { OAuthClient, OAuthProvider, OAuthTokens } from '#src/ports/identity.ts';
import type { ToolCredentials } from '#src/ports/tools.ts';
import { requireToolProvider, type ToolProviderAccess } from './tool-catalog.service.ts';
import {
  type ApiKeyCredentials,
  createToolConnectionsRepository,
  type ToolConnection,
  type ToolProviderCredentials,
} from './tool-connections.model.ts';

const purpose = 'tools';

type ToolConsentInput = {
  provider: string;
  /** OAuth scopes to request; undefined requests all scopes that the provider's tools need. */
  scopes: readonly string[] | undefined;
  returnTo: string | undefined;
  publicUrl: string;
};

type Granted = { credentials: ToolProviderCredentials; scopes: string[]; expiresAt: Date | null };

export type ToolConnectionsService = ReturnType<typeof createToolConnectionsService>;

export function createToolConnectionsService(deps: {
  db: Knex;
  access: ToolProviderAccess;
  secrets: Pick<CredentialStore<ToolProviderCredentials>, 'decrypt' | 'encrypt'>;
  oauth: Pick<OAuthClient, 'revoke'>;
  consents: Pick<OAuthConsentsService, 'begin' | 'comeBack' | 'finish'>;
  accessChanges: Pick<AccessRightsChangesService, 'administer'>;
  audit: AuditService;
  logger: Logger;
}) {
  const { db, access, secrets, oauth, consents, accessChanges, audit, logger } = deps;

  function requireOAuth(id: string): { provider: ToolProvider; settings: OAuthProvider } {
    const provider = requireToolProvider(id);
    const how = access[id];
    if (how?.kind !== 'oauth') {
      throw appError('wrong_auth_kind', { detail: `${provider.name} is connected with an API key, not by OAuth.` });
    }
    if (how.settings === null) throw appError('provider_not_configured');
    return { provider, settings: how.settings };
  }

  async function store(actor: RequestActor, provider: string, granted: Granted): Promise<void> {
    const { orgId, userId, requestId } = actor;
    await accessChanges.administer(actor, async (trx) => {
      const repository = createToolConnectionsRepository(trx);
      const old = await repository.find(orgId, provider);
      const id = old?.id ?? uuidv7();
      const credentials = secrets.encrypt({ orgId, id }, granted.credentials);
      const fresh = { credentials, scopes: granted.scopes, expiresAt: granted.expiresAt };
      if (old === undefined) await repository.insert({ id, orgId, provider, ...fresh });
      else await repository.replace(old, fresh);
      const action = old === undefined ? 'tool.connected' : 'tool.reconnected';
      const detail = { provider, scopes: granted.scopes.join(' ') };
      await audit.record(trx, { orgId, actorId: userId, action, target: id, detail, requestId });
    });
  }

  /**
   * Revokes an OAuth grant; never throws. If revoking fails, the grant works until it expires or the user revokes it at
   * the provider.
   */
  async function revoke(provider: string, credentials: ToolProviderCredentials): Promise<void> {
    const how = access[provider];
    if (credentials.kind !== 'oauth' || how?.kind !== 'oauth' || how.settings === null) return;
    await revokeOrWarn({ oauth, logger }, provider, how.settings, credentials);
  }

  /**
   * Revokes a grant that could not be stored, unless the organization already has a connection: providers like Google
   * revoke all grants of an account together, and the stored grant may belong to the same account.
   */
  async function revokeUnstored(orgId: string, provider: string, credentials: ToolProviderCredentials): Promise<void> {
    const isConnected = await createToolConnectionsRepository(db)
      .find(orgId, provider)
      .then(
        (connection) => connection !== undefined,
        () => true,
      );
    if (!isConnected) await revoke(provider, credentials);
  }

  async function revokeStored(connection: ToolConnection): Promise<void> {
    // If the encryption key is missing, the tokens cannot be decrypted and therefore not revoked.
    const credentials = await secrets.decrypt(connection).catch(() => null);
    if (credentials !== null) await revoke(connection.provider, credentials);
  }

  async function complete(
    actor: RequestActor,
    provider: string,
    consent: FinishedOAuthConsent,
    tokens: OAuthTokens,
  ): Promise<void> {
    const { accessToken, refreshToken, expiresAt } = tokens;
    const credentials = { kind: 'oauth', accessToken, refreshToken } as const;
    try {
      await store(actor, provider, { credentials, scopes: tokens.scopes ?? consent.scopes, expiresAt });
    } catch (error) {
      await revokeUnstored(actor.orgId, provider, credentials);
      throw error;
    }
  }

  return {
    async connectByKey(actor: RequestActor, providerId: string, apiKey: string): Promise<void> {
      const provider = requireToolProvider(providerId);
      const how = access[providerId];
      if (how?.kind !== 'api_key') {
        throw appError('wrong_auth_kind', { detail: `${provider.name} is connected by OAuth, not with an API key.` });
      }
      await how.check(apiKey);
      await store(actor, providerId, { credentials: { kind: 'api_key', apiKey }, scopes: [], expiresAt: null });
    },

    async beginConsent(actor: RequestActor, input: ToolConsentInput): Promise<string> {
      const { provider, settings } = requireOAuth(input.provider);
      const offered = provider.auth.kind === 'oauth' ? provider.auth.scopes.map(({ id }) => id) : [];
      const unknown = input.scopes?.find((scope) => !offered.includes(scope));
      if (unknown !== undefined) throw fieldError('scopes', 'must be among the scope options of the provider', 'scope');
      const { returnTo, publicUrl } = input;
      const redirectUri = `${publicUrl}/agents/tools/${provider.id}/callback`;
      const scopes = input.scopes ?? offered;
      return consents.begin(actor, { purpose, provider: provider.id, settings, redirectUri, scopes, returnTo });
    },

    comeBack: (callback: OAuthConsentCallback): Promise<OAuthConsentCallbackResult> =>
      consents.comeBack(callback, purpose),

    async finishConsent(actor: RequestActor, answer: { provider: string; consentCode: string }): Promise<void> {
      const { provider, settings } = requireOAuth(answer.provider);
      const { consent, tokens } = await consents.finish(actor, answer, { purpose, settings });
      await complete(actor, provider.id, consent, tokens);
    },

    async disconnect(actor: RequestActor, providerId: string): Promise<void> {
      const { orgId, userId, requestId } = actor;
      const { id: provider } = requireToolProvider(providerId);
      const removed = await accessChanges.administer(actor, async (trx) => {
        const connection = await createToolConnectionsRepository(trx).remove(orgId, provider);
        if (connection === undefined) return undefined;
        const entry = { orgId, actorId: userId, action: 'tool.disconnected', target: connection.id, requestId };
        await audit.record(trx, { ...entry, detail: { provider } });
        return connection;
      });
      if (removed !== undefined) await revokeStored(removed);
    },
  };
}

export function createToolCredentials(deps: {
  db: Knex;
  credentials: CredentialsService<ToolConnection, ApiKeyCredentials>;
}): ToolCredentials {
  const repository = createToolConnectionsRepository(deps.db);

  return {
    async use({ orgId, requestId }, toolId, call) {
      const { provider, scopes } = requirementsOf(toolId);
      async function load(): Promise<ToolConnection> {
        const connection = await repository.find(orgId, provider);
        if (connection === undefined) throw appError('not_connected');
        return connection;
      }
      return deps.credentials.use({ load, requestId }, (credentials, connection) => {
        if (!scopes.every((scope) => connection.scopes.includes(scope))) throw appError('not_granted');
        return call(credentials.kind === 'oauth' ? credentials.accessToken : credentials.apiKey);
      });
    },
  };
}

export function createToolCredentialCallbacks(deps: {
  db: Knex;
  oauth: Pick<OAuthClient, 'revoke'>;
  access: ToolProviderAccess;
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

    /**
     * Revokes the refreshed grant of a connection that was deleted meanwhile. Keeps the grant if the organization has
     * connected again, because the new connection may share it.
     */
    async onUnwanted({ orgId, provider }: ToolConnection, grant: OAuthGrant): Promise<void> {
      if ((await createToolConnectionsRepository(db).find(orgId, provider)) !== undefined) return;
      await revokeOrWarn({ oauth, logger }, provider, settingsOf({ provider }), grant);
    },
  };
}

async function revokeOrWarn(
  { oauth, logger }: { oauth: Pick<OAuthClient, 'revoke'>; logger: Pick<Logger, 'warn'> },
  provider: string,
  settings: OAuthProvider,
  { accessToken, refreshToken }: OAuthGrant,
): Promise<void> {
  try {
    await oauth.revoke(settings, refreshToken ?? accessToken);
  } catch (error) {
    logger.warn({ msg: 'a grant could not be revoked', provider, code: error instanceof AppError && error.code });
  }
}

function requirementsOf(toolId: string): { provider: string; scopes: string[] } {
  const tool = allTools.find(({ id }) => id === toolId);
  if (tool === undefined || tool.provider === null)
    throw new Error(`The tool ${toolId} needs no connection to a provider.`);
  return { provider: tool.provider, scopes: tool.actions.flatMap(({ scopes }) => scopes) };
}
