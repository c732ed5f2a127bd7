import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { maskSecret } from '#src/domain/access/credentials.ts';
import { createOrFindExisting } from '#src/domain/access/idempotency.ts';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import {
  type ConnectorProvider,
  connectorProviderLabels,
  oauthConnectorProviders,
} from '#src/domain/documents/connector-providers.ts';
import { canonicalJson } from '#src/domain/text/canonical-json.ts';
import { AppError, appError, fieldError, type IfMatchVersions, requireExpectedVersion } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type {
  OAuthConsentCallback,
  OAuthConsentCallbackResult,
  OAuthConsentsService,
} from '#src/modules/consents/consents.service.ts';
import type { CredentialStore, OAuthGrant } from '#src/modules/credentials/credentials.service.ts';
import type { SyncsService } from '#src/modules/imports/syncs.service.ts';
import type { AccessRightsChangesService } from '#src/modules/organization/organization.service.ts';
import type { ConnectorRegistry, RemoteAccount, RemoteFilePage } from '#src/ports/connectors.ts';
import type {
  Connection,
  ConnectionConfig,
  ConnectionCredentials,
  ConnectionView,
  StoredS3Keys,
} from './connections.model.ts';
import { createConnectionsRepository } from './connections.repository.ts';
import type { ConnectionConfigChange } from './connections.schema.ts';
import {
  type ConnectorCredentialsService,
  formatLastConnectionError,
  type RevokeOAuthGrant,
  requireOAuthProvider,
  toConnectorAccess,
} from './connector-credentials.service.ts';

/** Provider errors after which a check sets a connection's status to `error`; `needs_reauth` has its own status. */
const unusable: readonly string[] = ['not_granted', 'provider_rejected', 'remote_file_not_found', 'url_not_allowed'];

const purpose = 'connectors';

type NewKeyConnection = { displayName: string; keys: StoredS3Keys; config: ConnectionConfig };

type NewOAuthConnection = {
  account: RemoteAccount;
  config: ConnectionConfig;
  grant: OAuthGrant;
  scopes: string[];
  expiresAt: Date | null;
};

type ConnectionChange = {
  displayName?: string | undefined;
  keys?: StoredS3Keys | undefined;
  config?: ConnectionConfigChange | undefined;
};

type ConnectorConsentRequest = {
  provider: ConnectorProvider;
  loginHint: string | undefined;
  siteId: string | undefined;
  returnTo: string | undefined;
  publicUrl: string;
};

export type ConnectionsService = ReturnType<typeof createConnectionsService>;

/** Manages the connections of users to file providers. A user sees and changes only their own connections. */
export function createConnectionsService(deps: {
  db: Knex;
  access: ConnectorRegistry;
  stored: Pick<CredentialStore<ConnectionCredentials>, 'encrypt' | 'decrypt'>;
  credentials: Pick<ConnectorCredentialsService, 'check' | 'browse'>;
  consents: Pick<OAuthConsentsService, 'begin' | 'comeBack' | 'finish'>;
  accessChanges: Pick<AccessRightsChangesService, 'change'>;
  revokeGrant: RevokeOAuthGrant;
  syncs: Pick<SyncsService, 'checkSettings' | 'applyChange'>;
  audit: AuditService;
}) {
  const { db, access, stored, credentials, consents, accessChanges, revokeGrant, syncs, audit } = deps;

  function requireReadable(actor: RequestActor, connection: Connection | undefined): Connection {
    if (connection !== undefined && mayPerformAction(actor, 'connection:read', connection)) return connection;
    throw appError('connection_not_found');
  }

  async function find(actor: RequestActor, id: string): Promise<Connection> {
    return requireReadable(actor, await createConnectionsRepository(db).find(actor.orgId, id));
  }

  async function lock(trx: Knex, actor: RequestActor, id: string): Promise<Connection> {
    return requireReadable(actor, await createConnectionsRepository(trx).lock(actor.orgId, id));
  }

  async function get(actor: RequestActor, id: string): Promise<ConnectionView> {
    return viewOf(await find(actor, id));
  }

  /** Adds the masked credentials to a connection; leaves them empty if no configured encryption key decrypts them. */
  async function viewOf(connection: Connection): Promise<ConnectionView> {
    const secrets = await stored.decrypt(connection).then(secretsOf, () => ({}));
    const credentialsMasked = Object.fromEntries(
      Object.entries(secrets).map(([name, secret]) => [name, maskSecret(secret)]),
    );
    return { ...connection, credentialsMasked };
  }

  async function record(
    trx: Knex,
    { orgId, userId, requestId }: RequestActor,
    { id: target, provider }: Pick<Connection, 'id' | 'provider'>,
    action: string,
  ) {
    await audit.record(trx, { orgId, actorId: userId, action, target, detail: { provider }, requestId });
  }

  async function checkKeys(config: ConnectionConfig, keys: ConnectionCredentials): Promise<RemoteAccount> {
    return access.connectors.acme_s3.check(toConnectorAccess(config, keys)).catch(throwCheckFailed);
  }

  async function storeGrant(
    actor: RequestActor,
    provider: ConnectorProvider,
    { account, config, grant, scopes, expiresAt }: NewOAuthConnection,
  ): Promise<string> {
    const { orgId, userId } = actor;
    const { accountId } = account;
    return accessChanges.change(actor, async (trx, _caller, places) => {
      const repository = createConnectionsRepository(trx);
      const old = await repository.findGrant({ orgId, userId, provider, accountId });
      const id = old?.id ?? uuidv7();
      const fresh = { credentials: stored.encrypt({ orgId, id }, grant), scopes, expiresAt };
      if (old === undefined) {
        places.take('connections', await repository.count(orgId));
        const displayName = `${connectorProviderLabels[provider]} (${account.accountName})`;
        await repository.insert({ id, orgId, userId, provider, accountId, displayName, config, ...fresh });
      } else {
        await repository.update(old, { ...fresh, accountId });
      }
      await record(trx, actor, { id, provider }, old === undefined ? 'connection.created' : 'connection.reconnected');
      return id;
    });
  }

  async function checkChange(connection: Connection, { keys, config = {} }: ConnectionChange) {
    if (connection.provider !== 'acme_s3' && keys !== undefined) {
      throw fieldError('credentials', 'are for acme_s3 only; give your consent at the provider again', 'credentials');
    }
    const changed = changedSettings(connection, config).filter((name) => name !== 'sync');
    const [fixed] = changed.filter((name) => connection.provider !== 'acme_s3' || name === 'site_id');
    if (fixed !== undefined) throw fieldError(`config.${fixed}`, 'cannot change; create another connection', 'fixed');
    if (keys === undefined && changed.length === 0) return null;
    const opened = keys ?? (await stored.decrypt(connection));
    return { account: await checkKeys(withChanges(connection.config, config), opened), credentials: opened };
  }

  /** Revokes the connection's OAuth grant, unless no configured encryption key decrypts it. */
  async function revoke(connection: Connection): Promise<void> {
    const opened = await stored.decrypt(connection).catch(() => null);
    if (opened?.kind === 'oauth') await revokeGrant(connection, opened, connection.id);
  }

  return {
    providers: () => oauthConnectorProviders.filter((provider) => access.consents[provider] !== null),

    async beginConsent(actor: RequestActor, request: ConnectorConsentRequest): Promise<string> {
      const { loginHint, siteId, returnTo, publicUrl } = request;
      const { provider, settings, scopes } = requireOAuthProvider(access, request.provider);
      const hasSites = provider === 'acme_sharepoint';
      if (hasSites && siteId === undefined) throw fieldError('site_id', 'is required for acme_sharepoint', 'required');
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

    returnFromConsent: (callback: OAuthConsentCallback): Promise<OAuthConsentCallbackResult> =>
      consents.comeBack(callback, purpose),

    /**
     * Stores the OAuth grant of a completed consent: in a new connection, or in the caller's existing connection to the
     * same provider account.
     */
    async finishConsent(
      actor: RequestActor,
      { provider, consentCode }: { provider: ConnectorProvider; consentCode: string },
    ): Promise<ConnectionView> {
      const { settings } = requireOAuthProvider(access, provider);
      const { consent, tokens } = await consents.finish(actor, { provider, consentCode }, { purpose, settings });
      const { accessToken, refreshToken, expiresAt } = tokens;
      const { siteId } = consent;
      const scopes = tokens.scopes ?? consent.scopes;
      const opened = { kind: 'oauth', accessToken, siteId } as const;
      const account = await access.connectors[provider].check(opened).catch(throwCheckFailed);
      const grant = { kind: 'oauth', accessToken, refreshToken } as const;
      const config = siteId === null ? {} : { site_id: siteId };
      let connectionId: string;
      try {
        connectionId = await storeGrant(actor, provider, { account, config, grant, scopes, expiresAt });
      } catch (error) {
        await revokeGrant({ provider, accountId: account.accountId, config }, grant);
        throw error;
      }
      await syncs.applyChange({ orgId: actor.orgId, connectionId });
      return get(actor, connectionId);
    },

    async createByKeys(
      actor: RequestActor,
      id: string,
      { displayName, keys, config }: NewKeyConnection,
    ): Promise<ConnectionView> {
      const { orgId, userId } = actor;
      const make = async () => {
        if (config.sync !== undefined) await syncs.checkSettings(actor, config.sync);
        const { accountId } = await checkKeys(config, keys);
        const provider = 'acme_s3';
        await accessChanges.change(actor, async (trx, _caller, places) => {
          const repository = createConnectionsRepository(trx);
          places.take('connections', await repository.count(orgId));
          const fresh = { credentials: stored.encrypt({ orgId, id }, keys), scopes: [], expiresAt: null };
          await repository.insert({ id, orgId, userId, provider, displayName, accountId, config, ...fresh });
          await record(trx, actor, { id, provider }, 'connection.created');
        });
        return find(actor, id);
      };
      await createOrFindExisting(make, () => createConnectionsRepository(db).find(orgId, id));
      await syncs.applyChange({ orgId, connectionId: id });
      return get(actor, id);
    },

    async list(actor: RequestActor): Promise<ConnectionView[]> {
      return Promise.all((await createConnectionsRepository(db).listOf(actor)).map(viewOf));
    },

    get,

    async browse(actor: RequestActor, id: string, path: string, page: string | null): Promise<RemoteFilePage> {
      const { orgId, requestId } = actor;
      await find(actor, id);
      return credentials.browse({ orgId, connectionId: id, requestId }, path, page);
    },

    async change(
      actor: RequestActor,
      id: string,
      change: ConnectionChange,
      expected: IfMatchVersions,
    ): Promise<ConnectionView> {
      const { orgId } = actor;
      const before = await find(actor, id);
      if (change.config?.sync) await syncs.checkSettings(actor, change.config.sync);
      const checked = await checkChange(before, change);
      await db.transaction(async (trx) => {
        const connection = await lock(trx, actor, id);
        requireExpectedVersion(expected, connection);
        // Fails if another request changed the connection while its credentials were checked at the provider.
        if (checked !== null && !isSame(before, connection)) throw appError('precondition_failed');
        const { displayName = connection.displayName, config = {} } = change;
        const isRenamed = displayName !== connection.displayName;
        const repository = createConnectionsRepository(trx);
        if (checked === null && !isRenamed && changedSettings(connection, config).length === 0) {
          return repository.incrementVersion(connection);
        }
        await repository.update(connection, {
          displayName,
          config: withChanges(connection.config, config),
          ...(checked !== null && {
            accountId: checked.account.accountId,
            credentials: stored.encrypt(connection, checked.credentials),
          }),
        });
        await record(trx, actor, connection, 'connection.changed');
      });
      await syncs.applyChange({ orgId, connectionId: id });
      return get(actor, id);
    },

    /** Checks the credentials of a connection at the provider, and stores the result as its status. */
    async refresh(actor: RequestActor, id: string, expected: IfMatchVersions): Promise<ConnectionView> {
      const { orgId, requestId } = actor;
      const of = { orgId, connectionId: id, requestId };
      await db.transaction(async (trx) => {
        const connection = await lock(trx, actor, id);
        requireExpectedVersion(expected, connection);
        await createConnectionsRepository(trx).incrementVersion(connection);
      });
      const repository = createConnectionsRepository(db);
      try {
        await credentials.check(of);
        await repository.setState({ orgId, id }, { status: 'active', lastError: null });
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        if (error.code === 'needs_reauth') return get(actor, id);
        if (unusable.includes(error.code)) {
          await repository.setState({ orgId, id }, { status: 'error', lastError: formatLastConnectionError(error) });
        }
        return throwCheckFailed(error);
      }
      await syncs.applyChange(of);
      return get(actor, id);
    },

    async remove(actor: RequestActor, id: string): Promise<void> {
      const { orgId } = actor;
      const connection = await db.transaction(async (trx) => {
        const found = await lock(trx, actor, id);
        await createConnectionsRepository(trx).remove(found);
        await record(trx, actor, found, 'connection.deleted');
        return found;
      });
      await syncs.applyChange({ orgId, connectionId: id });
      await revoke(connection);
    },

    /**
     * Deletes a connection as part of a data erasure. Revokes the grant first, because a retry finds the grant only
     * while the connection exists.
     */
    async forget(of: { orgId: string; connectionId: string }): Promise<void> {
      const repository = createConnectionsRepository(db);
      const connection = await repository.find(of.orgId, of.connectionId);
      if (connection !== undefined) {
        await revoke(connection);
        await repository.remove(connection);
      }
      await syncs.applyChange(of);
    },
  };
}

const refusals = [...unusable, 'needs_reauth'];

/** Throws `connection_check_failed` if the provider refused the connection; rethrows any other error. */
function throwCheckFailed(error: unknown): never {
  if (!(error instanceof AppError) || !refusals.includes(error.code)) throw error;
  throw appError('connection_check_failed', { detail: error.message });
}

function secretsOf(credentials: ConnectionCredentials): Record<string, string> {
  if (credentials.kind === 'oauth') {
    const { accessToken, refreshToken } = credentials;
    return { access_token: accessToken, ...(refreshToken !== null && { refresh_token: refreshToken }) };
  }
  const { accessKeyId, secretAccessKey, sessionToken } = credentials;
  return {
    access_key_id: accessKeyId,
    secret_access_key: secretAccessKey,
    ...(sessionToken !== null && { session_token: sessionToken }),
  };
}

function withChanges(config: ConnectionConfig, change: ConnectionConfigChange): ConnectionConfig {
  const merged = Object.entries({ ...config, ...change }).filter(([, value]) => value !== null && value !== undefined);
  return Object.fromEntries(merged);
}

function changedSettings({ config }: Connection, change: ConnectionConfigChange): string[] {
  const after = new Map<string, unknown>(Object.entries(withChanges(config, change)));
  const before = new Map<string, unknown>(Object.entries(config));
  return Object.keys(change).filter(
    (name) => canonicalJson(before.get(name) ?? null) !== canonicalJson(after.get(name) ?? null),
  );
}

function isSame(one: Connection, other: Connection): boolean {
  return one.generation === other.generation && canonicalJson(one.config) === canonicalJson(other.config);
}
