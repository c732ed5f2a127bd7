import type { Knex } from 'knex';
import type { Logger } from 'pino';
import { v7 as uuidv7 } from 'uuid';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import type { ToolProvider } from '#src/domain/agents/tools.ts';
import { AppError, appError, fieldError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type {
  Consent,
  ConsentCallback,
  ConsentReturn,
  ConsentsService,
} from '#src/modules/consents/consents.service.ts';
import type { CredentialStore } from '#src/modules/credentials/credentials.service.ts';
import type { AccessChangesService } from '#src/modules/organization/organization.service.ts';
import type { OAuthClient, OAuthProvider, OAuthTokens } from '#src/ports/identity.ts';
import type { ProviderAccesses } from './provider-access.ts';
import { providerOf } from './tool-catalog.service.ts';
import type { Credentials, ToolConnection } from './tool-connections.model.ts';
import { createToolConnectionsRepository } from './tool-connections.repository.ts';

const purpose = 'tools';

export type ConsentInput = {
  provider: string;
  /** All that the provider has for us where none are named. */
  scopes: readonly string[] | undefined;
  returnTo: string | undefined;
  publicUrl: string;
};

type Granted = { credentials: Credentials; scopes: string[]; expiresAt: Date | null };

/** How organizations connect themselves to the providers of tools: one connection for each provider. */
export function createToolConnectionsService(deps: {
  db: Knex;
  access: ProviderAccesses;
  secrets: Pick<CredentialStore<Credentials>, 'decrypt' | 'encrypt'>;
  oauth: Pick<OAuthClient, 'revoke'>;
  consents: Pick<ConsentsService, 'begin' | 'comeBack' | 'finish'>;
  accessChanges: Pick<AccessChangesService, 'administer'>;
  audit: AuditService;
  logger: Logger;
}) {
  const { db, access, secrets, oauth, consents, accessChanges, audit, logger } = deps;

  /** Throws `provider_not_found`, `wrong_auth_kind`, `provider_not_configured`. */
  function grantSettings(id: string): { provider: ToolProvider; settings: OAuthProvider } {
    const provider = providerOf(id);
    const how = access[id];
    if (how?.kind !== 'oauth') throw appError('wrong_auth_kind', { detail: `${provider.name} is connected by a key.` });
    if (how.settings === null) throw appError('provider_not_configured');
    return { provider, settings: how.settings };
  }

  /** Puts credentials in the place of whatever was there. */
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

  /** The grant is not worth a request that fails: it ends by itself, or its owner ends it at the provider. */
  async function revoke(provider: string, credentials: Credentials): Promise<void> {
    const how = access[provider];
    if (credentials.kind !== 'oauth' || how?.kind !== 'oauth' || how.settings === null) return;
    try {
      await oauth.revoke(how.settings, credentials.refreshToken ?? credentials.accessToken);
    } catch (error) {
      logger.warn({ msg: 'a grant could not be revoked', provider, code: error instanceof AppError && error.code });
    }
  }

  /**
   * Ends a grant that is not stored. Not where there is a connection: providers like Google end all grants of the same
   * account with one, and the older may be of that account.
   */
  async function giveBack(orgId: string, provider: string, credentials: Credentials): Promise<void> {
    const isConnected = await createToolConnectionsRepository(db)
      .find(orgId, provider)
      .then(
        (connection) => connection !== undefined,
        () => true,
      );
    if (!isConnected) await revoke(provider, credentials);
  }

  async function complete(actor: RequestActor, provider: string, consent: Consent, tokens: OAuthTokens): Promise<void> {
    const { accessToken, refreshToken, expiresAt } = tokens;
    const credentials = { kind: 'oauth', accessToken, refreshToken } as const;
    try {
      await store(actor, provider, { credentials, scopes: tokens.scopes ?? consent.scopes, expiresAt });
    } catch (error) {
      await giveBack(actor.orgId, provider, credentials);
      throw error;
    }
  }

  return {
    /** Throws `provider_not_found`, `wrong_auth_kind`, `connection_check_failed`, `provider_unavailable`. */
    async connectByKey(actor: RequestActor, providerId: string, apiKey: string): Promise<void> {
      const provider = providerOf(providerId);
      const how = access[providerId];
      if (how?.kind !== 'api_key') {
        throw appError('wrong_auth_kind', { detail: `${provider.name} is connected by a consent.` });
      }
      await how.check(apiKey);
      await store(actor, providerId, { credentials: { kind: 'api_key', apiKey }, scopes: [], expiresAt: null });
    },

    /**
     * Where an administrator consents. Throws `provider_not_found`, `wrong_auth_kind`, `provider_not_configured`,
     * `validation_failed`.
     */
    async beginConsent(actor: RequestActor, input: ConsentInput): Promise<string> {
      const { provider, settings } = grantSettings(input.provider);
      const offered = provider.auth.kind === 'oauth' ? provider.auth.scopes.map(({ id }) => id) : [];
      const unknown = input.scopes?.find((scope) => !offered.includes(scope));
      if (unknown !== undefined) throw fieldError('scopes', 'must be among the scope options of the provider', 'scope');
      const { returnTo, publicUrl } = input;
      const redirectUri = `${publicUrl}/agents/tools/${provider.id}/callback`;
      const scopes = input.scopes ?? offered;
      return consents.begin(actor, { purpose, provider: provider.id, settings, redirectUri, scopes, returnTo });
    },

    /** Answers the provider's redirect, see {@link ConsentsService.comeBack}. */
    comeBack: (callback: ConsentCallback): Promise<ConsentReturn> => consents.comeBack(callback, purpose),

    /**
     * Connects the organization by a consent that the caller began. Throws `provider_not_found`, `wrong_auth_kind`,
     * `consent_invalid`, `provider_not_configured`, `provider_rejected`, `provider_unavailable`.
     */
    async finishConsent(actor: RequestActor, answer: { provider: string; consentCode: string }): Promise<void> {
      const { provider, settings } = grantSettings(answer.provider);
      const { consent, tokens } = await consents.finish(actor, answer, { purpose, settings });
      await complete(actor, provider.id, consent, tokens);
    },

    /** Nothing happens to who is not connected. Throws `provider_not_found`. */
    async disconnect(actor: RequestActor, providerId: string): Promise<void> {
      const { orgId, userId, requestId } = actor;
      const { id: provider } = providerOf(providerId);
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

  async function revokeStored(connection: ToolConnection): Promise<void> {
    // Tokens whose encryption key is missing cannot be decrypted, and therefore not revoked.
    const credentials = await secrets.decrypt(connection).catch(() => null);
    if (credentials !== null) await revoke(connection.provider, credentials);
  }
}

export type ToolConnectionsService = ReturnType<typeof createToolConnectionsService>;
