import { setTimeout as delay } from 'node:timers/promises';
import type { Knex } from 'knex';
import type { Logger } from 'pino';
import type { ConnectorProvider, OAuthConnectorProvider } from '#src/domain/documents/connector-providers.ts';
import { AppError, appError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { CredentialsService, OAuthGrant } from '#src/modules/credentials/credentials.service.ts';
import type {
  Connector,
  ConnectorAccess,
  ConnectorCallContext,
  ConnectorCredentials,
  ConnectorOAuth,
  ConnectorRegistry,
  RemoteFile,
  RemoteFilePage,
} from '#src/ports/connectors.ts';
import type { OAuthClient } from '#src/ports/identity.ts';
import type { FairWorkQueue } from '#src/ports/load-control.ts';
import type { Connection, ConnectionCredentials, StoredS3Keys } from './connections.model.ts';
import { createConnectionsRepository } from './connections.repository.ts';

/** Browsing a folder requests no further page once it found this many files or read MAX_BROWSE_PAGES pages. */
const MAX_BROWSE_FILES = 1_000;
const MAX_BROWSE_PAGES = 20;
/**
 * Average number of files per page below which browsing a folder ends early, once MIN_SPARSE_PAGES pages were read.
 */
const SPARSE_PAGE_FILES = 10;
const MIN_SPARSE_PAGES = 3;
/** Time after which browsing a folder requests no further page of the provider. */
const BROWSE_MS = 10_000;
/**
 * Parsing the provider's pages blocks the event loop. After each browse request, the queue therefore pauses for this
 * multiple of the blocked time, at most MAX_PAUSE_MS.
 */
const PAUSE_FACTOR = 3;
const MAX_PAUSE_MS = 1_000;

export type ConnectorCredentialsService = ReturnType<typeof createConnectorCredentials>;

export function createConnectorCredentials(deps: {
  db: Knex;
  access: ConnectorRegistry;
  credentials: CredentialsService<Connection, StoredS3Keys>;
  browseQueue: FairWorkQueue;
}) {
  const { db, access, credentials: service, browseQueue } = deps;

  async function use<Result>(
    { orgId, connectionId, requestId }: ConnectorCallContext,
    call: (access: ConnectorAccess, connector: Connector) => Promise<Result>,
    { isTrial = false } = {},
  ): Promise<Result> {
    async function load(): Promise<Connection> {
      const connection = await createConnectionsRepository(db).find(orgId, connectionId);
      if (connection === undefined) throw appError('connection_not_found');
      return connection;
    }
    return service.use({ load, requestId, isTrial }, (credentials, row) =>
      call(toConnectorAccess(row.config, credentials), access.connectors[row.provider]),
    );
  }

  /** Queues a browse request and returns its result. The pause that follows delays only the next browse request. */
  function queued(orgId: string, request: () => Promise<RemoteFilePage>): Promise<RemoteFilePage> {
    const response = Promise.withResolvers<RemoteFilePage>();
    const task = browseQueue(orgId, async () => {
      const before = performance.eventLoopUtilization();
      await request().then(response.resolve, response.reject);
      const { active } = performance.eventLoopUtilization(before);
      await delay(Math.min(PAUSE_FACTOR * active, MAX_PAUSE_MS));
    });
    task.catch(response.reject);
    return response.promise;
  }

  return {
    use: (of, call) => use(of, call),

    /** Checks the credentials at the provider, even if the provider has refused them before. Throws as `use` does. */
    async check(of: ConnectorCallContext): Promise<void> {
      await use(of, (opened, connector) => connector.check(opened), { isTrial: true });
    },

    /**
     * Lists a remote folder from the page cursor `page` on; reads several of the provider's pages per call. Throws as
     * `use` does.
     */
    browse(of: ConnectorCallContext, path: string, page: string | null): Promise<RemoteFilePage> {
      return queued(of.orgId, () =>
        use(of, async (opened, connector) => {
          const files: RemoteFile[] = [];
          const endsAtMs = performance.now() + BROWSE_MS;
          let nextPage = page;
          for (let pages = 1; ; pages += 1) {
            const found = await connector.list(opened, { path }, nextPage);
            files.push(...found.files);
            nextPage = found.nextPage;
            const isSparse = pages >= MIN_SPARSE_PAGES && files.length < pages * SPARSE_PAGE_FILES;
            const isEnough = files.length >= MAX_BROWSE_FILES || pages >= MAX_BROWSE_PAGES || isSparse;
            if (nextPage === null || isEnough || performance.now() > endsAtMs) return { files, nextPage };
          }
        }),
      );
    },
  } satisfies ConnectorCredentials & Record<string, unknown>;
}

/** S3 region if none is configured; S3-compatible services without regions accept it. */
const defaultRegion = 'us-east-1';

export function toConnectorAccess(config: Connection['config'], credentials: ConnectionCredentials): ConnectorAccess {
  if (credentials.kind === 'oauth') {
    return { kind: 'oauth', accessToken: credentials.accessToken, siteId: config.site_id ?? null };
  }
  const { bucket = '', prefix = '', region = defaultRegion, endpoint = null } = config;
  const forcePathStyle = config.force_path_style ?? endpoint !== null;
  return { ...credentials, bucket, prefix, region, endpoint, forcePathStyle };
}

/** Returns the OAuth settings of a provider. Throws `wrong_auth_kind` for S3, and `provider_not_configured`. */
export function requireOAuthProvider(
  { consents }: ConnectorRegistry,
  provider: ConnectorProvider,
): ConnectorOAuth & { provider: OAuthConnectorProvider } {
  if (provider === 'acme_s3')
    throw appError('wrong_auth_kind', {
      detail: 'acme_s3 has no OAuth consent. Create its connection with access keys.',
    });
  const oauth = consents[provider];
  if (oauth === null) throw appError('provider_not_configured');
  return { ...oauth, provider };
}

/**
 * Returns the callback that stores the status `needs_reauth` when the provider refuses the credentials of a connection.
 */
export function createNeedsReauthRecorder({ audit }: { audit: AuditService }) {
  return async (trx: Knex, connection: Connection, requestId: string): Promise<void> => {
    const { id, orgId, provider } = connection;
    const lastError = formatLastConnectionError(appError('needs_reauth'));
    await createConnectionsRepository(trx).setState(connection, { status: 'needs_reauth', lastError });
    const entry = { orgId, actorId: null, action: 'connection.needs_reauth', target: id, requestId };
    await audit.record(trx, { ...entry, detail: { provider } });
  };
}

export function formatLastConnectionError({ code, message }: { code: string; message: string }): string {
  return `${code}: ${message}`;
}

/**
 * Revokes an OAuth grant at the provider, unless another connection uses the same account. Never throws. `connectionId`
 * is the connection that stores the grant; undefined if the grant was not stored.
 */
export type RevokeOAuthGrant = (
  of: Pick<Connection, 'provider' | 'accountId' | 'config'>,
  grant: OAuthGrant,
  connectionId?: string,
) => Promise<void>;

export function createOAuthGrantRevoker(deps: {
  db: Knex;
  access: ConnectorRegistry;
  oauth: Pick<OAuthClient, 'revoke'>;
  logger: Pick<Logger, 'warn'>;
}): RevokeOAuthGrant {
  const { db, access, oauth, logger } = deps;

  return async ({ provider, accountId, config }, grant, connectionId) => {
    const consent = provider === 'acme_s3' ? null : access.consents[provider];
    if (consent === null) return;
    try {
      // Keeps a grant whose account another connection uses: at Google and similar providers, revoking one grant of an
      // account revokes all of its grants.
      if (await createConnectionsRepository(db).isAccountUsed(provider, accountId, connectionId)) return;
      const { revoke } = access.connectors[provider];
      if (revoke === null) await oauth.revoke(consent.settings, grant.refreshToken ?? grant.accessToken);
      else await revoke(toConnectorAccess(config, grant));
    } catch (error) {
      // A failed revocation does not fail the request: the grant expires, or the user revokes it at the provider.
      logger.warn({ msg: 'a grant could not be revoked', provider, code: error instanceof AppError && error.code });
    }
  };
}
