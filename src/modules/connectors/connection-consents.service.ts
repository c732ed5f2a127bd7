import { v7 as uuidv7 } from 'uuid';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import {
  type ConnectorProvider,
  connectorLabels,
  oauthConnectorProviders,
} from '#src/domain/documents/connector-providers.ts';
import { fieldError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type {
  Consent,
  ConsentCallback,
  ConsentReturn,
  ConsentsService,
} from '#src/modules/consents/consents.service.ts';
import type { CredentialStore, OAuthGrant } from '#src/modules/credentials/credentials.service.ts';
import type { AccessChangesService } from '#src/modules/organization/access-changes.service.ts';
import type { ConnectorAccesses, RemoteAccount } from '#src/ports/connectors.ts';
import type { OAuthTokens } from '#src/ports/identity.ts';
import { checkFailed } from './check-failed.ts';
import type { ConnectionConfig, ConnectionCredentials } from './connections.model.ts';
import { createConnectionsRepository } from './connections.repository.ts';
import type { ConnectionSyncs } from './connections.service.ts';
import { consentAt } from './connector-access.ts';
import type { RevokeGrant } from './grant-revoker.ts';

const purpose = 'connectors';

export type ConnectorConsentInput = {
  provider: ConnectorProvider;
  loginHint: string | undefined;
  siteId: string | undefined;
  returnTo: string | undefined;
  publicUrl: string;
};

/** How users get us to their files by a consent at the provider. */
export function createConnectionConsentsService(deps: {
  access: ConnectorAccesses;
  stored: Pick<CredentialStore<ConnectionCredentials>, 'encrypt'>;
  consents: Pick<ConsentsService, 'begin' | 'comeBack' | 'finish'>;
  accessChanges: Pick<AccessChangesService, 'change'>;
  revokeGrant: RevokeGrant;
  syncs: Pick<ConnectionSyncs, 'apply'>;
  audit: AuditService;
}) {
  const { access, stored, consents, accessChanges, revokeGrant, syncs, audit } = deps;

  /**
   * Makes a connection, or makes the one work again that its owner has to the same files.
   * @returns its id
   */
  async function store(
    actor: RequestActor,
    provider: ConnectorProvider,
    granted: {
      account: RemoteAccount;
      config: ConnectionConfig;
      grant: OAuthGrant;
      scopes: string[];
      expiresAt: Date | null;
    },
  ): Promise<string> {
    const { orgId, userId, requestId } = actor;
    const { account, config, grant, scopes, expiresAt } = granted;
    const { accountId } = account;
    return accessChanges.change(actor, async (trx, _caller, places) => {
      const repository = createConnectionsRepository(trx);
      const old = await repository.findGrant({ orgId, userId, provider, accountId });
      const id = old?.id ?? uuidv7();
      const fresh = { credentials: stored.encrypt({ orgId, id }, grant), scopes, expiresAt };
      if (old === undefined) {
        places.take('connections', await repository.count(orgId));
        const displayName = `${connectorLabels[provider]} (${account.accountName})`;
        await repository.insert({ id, orgId, userId, provider, accountId, displayName, config, ...fresh });
      } else {
        await repository.update(old, { ...fresh, accountId });
      }
      const action = old === undefined ? 'connection.created' : 'connection.reconnected';
      await audit.record(trx, { orgId, actorId: userId, action, target: id, detail: { provider }, requestId });
      return id;
    });
  }

  async function complete(
    actor: RequestActor,
    provider: ConnectorProvider,
    { siteId, scopes }: Consent,
    tokens: OAuthTokens,
  ): Promise<string> {
    const { accessToken, refreshToken, expiresAt } = tokens;
    const grant = { kind: 'oauth', accessToken, refreshToken } as const;
    const account = await access.connectors[provider].check({ kind: 'oauth', accessToken, siteId }).catch(checkFailed);
    const config = siteId === null ? {} : { site_id: siteId };
    const granted = { account, config, grant, scopes: tokens.scopes ?? scopes, expiresAt };
    let connectionId: string;
    try {
      connectionId = await store(actor, provider, granted);
    } catch (error) {
      await revokeGrant({ provider, accountId: account.accountId, config: granted.config }, grant);
      throw error;
    }
    await syncs.apply({ orgId: actor.orgId, connectionId });
    return connectionId;
  }

  return {
    /** Those that this deployment is known at. */
    providers: () => oauthConnectorProviders.filter((provider) => access.consents[provider] !== null),

    /** Where a user consents. Throws `wrong_auth_kind`, `provider_not_configured`, `validation_failed`. */
    async begin(actor: RequestActor, input: ConnectorConsentInput): Promise<string> {
      const { loginHint, siteId, returnTo, publicUrl } = input;
      const { provider, settings, scopes } = consentAt(access, input.provider);
      const hasSites = provider === 'acme_sharepoint';
      if (hasSites && siteId === undefined) throw fieldError('site_id', 'names the site; it is required', 'required');
      const hint = loginHint === undefined || provider === 'acme_dropbox' ? {} : { login_hint: loginHint };
      return consents.begin(actor, {
        purpose,
        provider,
        settings: { ...settings, authorizeParameters: { ...settings.authorizeParameters, ...hint } },
        redirectUri: `${publicUrl}/connectors/oauth/${provider}/callback`,
        scopes,
        ...(hasSites && siteId !== undefined && { siteId }),
        returnTo,
      });
    },

    /** Answers the provider's redirect, see {@link ConsentsService.comeBack}. */
    comeBack: (callback: ConsentCallback): Promise<ConsentReturn> => consents.comeBack(callback, purpose),

    /**
     * Makes the connection of a consent that the caller began. Throws `wrong_auth_kind`, `consent_invalid`,
     * `connection_check_failed`, `connection_limit_reached`, `provider_not_configured`, `provider_rejected`,
     * `provider_unavailable`, `provider_throttled`.
     * @returns the id of the connection
     */
    async finish(
      actor: RequestActor,
      { provider, consentCode }: { provider: ConnectorProvider; consentCode: string },
    ): Promise<string> {
      const { settings } = consentAt(access, provider);
      const { consent, tokens } = await consents.finish(actor, { provider, consentCode }, { purpose, settings });
      return complete(actor, provider, consent, tokens);
    },
  };
}

export type ConnectionConsentsService = ReturnType<typeof createConnectionConsentsService>;
