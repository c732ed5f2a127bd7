import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { tools } from '#src/domain/tools.ts';
import type { RequestActor } from '#src/domain/visibility.ts';
import { AppError, appError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { Db } from '#src/ports/database.ts';
import type { OAuthClient, OAuthProvider, OAuthTokens } from '#src/ports/oauth-client.ts';
import type { ToolCredentials } from '#src/ports/tool-credentials.ts';
import type { ConnectionSecrets } from './connection-secrets.ts';
import type { ProviderAccesses } from './provider-access.ts';
import type { Credentials, ToolConnection } from './tool-connections.model.ts';
import { createToolConnectionsRepository } from './tool-connections.repository.ts';

/** A token that lives so long is not renewed before a call. */
const FRESH_MS = 120_000;
/** One that lives so long still does while the provider, or a colleague, is busy with the next one. */
const USABLE_MS = 15_000;
/** Longer than a provider may take to answer. */
const LEASE_SECONDS = 15;
const PATIENCE_MS = 20_000;
const POLL_INTERVAL_MS = 100;

type Of = Pick<RequestActor, 'orgId' | 'requestId'>;
type Opened = { connection: ToolConnection; credentials: Credentials };
type OpenedGrant = { connection: ToolConnection; credentials: Extract<Credentials, { kind: 'oauth' }> };

/** Credentials for calls: opened when they are needed, renewed before they are too old. */
export function createToolCredentials(deps: {
  db: Db;
  secrets: ConnectionSecrets;
  oauth: Pick<OAuthClient, 'refresh' | 'revoke'>;
  access: ProviderAccesses;
  audit: AuditService;
  logger: Pick<Logger, 'warn'>;
}): ToolCredentials {
  const { db, secrets, oauth, access, audit, logger } = deps;
  const repository = createToolConnectionsRepository(db);

  async function load(orgId: string, provider: string): Promise<Opened> {
    const connection = await repository.find(orgId, provider);
    if (connection === undefined) throw appError('not_connected');
    if (connection.status === 'needs_reauth') throw appError('needs_reauth');
    return { connection, credentials: await secrets.open(connection) };
  }

  async function loadFresh(of: Of, provider: string): Promise<Opened> {
    const opened = await load(of.orgId, provider);
    if (!isGrant(opened) || livesFor(FRESH_MS, opened)) return opened;
    return renew(of, opened, livesFor(USABLE_MS, opened));
  }

  /**
   * One process asks for new tokens and all others wait for them, since each use of a refresh token may be its last.
   * `isUsable`: what is there will do for now.
   */
  async function renew(of: Of, old: OpenedGrant, isUsable: boolean): Promise<Opened> {
    const { connection } = old;
    const endMs = performance.now() + PATIENCE_MS;
    while (performance.now() < endMs) {
      if (await repository.claimRefresh(connection, LEASE_SECONDS)) return refresh(of, old, isUsable);
      if (isUsable) return old;
      const now = await load(of.orgId, connection.provider);
      if (now.connection.generation !== connection.generation) return now;
      await delay(POLL_INTERVAL_MS);
    }
    throw appError('provider_unavailable', { detail: 'Its tokens could not be renewed in time.' });
  }

  async function refresh(of: Of, old: OpenedGrant, isUsable: boolean): Promise<Opened> {
    const { connection, credentials } = old;
    let tokens: OAuthTokens;
    try {
      if (credentials.refreshToken === null) throw appError('needs_reauth');
      tokens = await oauth.refresh(settingsOf(connection.provider), credentials.refreshToken);
    } catch (error) {
      if (isRefusal(error)) return refuse(of, connection);
      await repository.endRefresh(connection);
      if (isUsable) return old;
      throw error;
    }
    const { accessToken, refreshToken, expiresAt, scopes } = tokens;
    // Stored before it is used: the provider may not know the old ones any more.
    const isStored = await repository.storeRefreshed(connection, {
      credentials: secrets.seal(connection, {
        kind: 'oauth',
        accessToken,
        refreshToken: refreshToken ?? credentials.refreshToken,
      }),
      scopes: scopes ?? connection.scopes,
      expiresAt,
    });
    if (!isStored) await giveBack(connection, refreshToken ?? accessToken);
    return load(of.orgId, connection.provider);
  }

  /** What came for a connection that is gone by now nobody else knows of. One that was made anew may be the same grant. */
  async function giveBack({ orgId, provider }: ToolConnection, token: string): Promise<void> {
    if ((await repository.find(orgId, provider)) !== undefined) return;
    await oauth.revoke(settingsOf(provider), token).catch((error: unknown) => {
      logger.warn({ msg: 'a grant could not be revoked', provider, code: error instanceof AppError && error.code });
    });
  }

  function settingsOf(provider: string): OAuthProvider {
    const how = access[provider];
    if (how?.kind !== 'oauth' || how.settings === null) throw appError('provider_not_configured');
    return how.settings;
  }

  /** From here on only an administrator can help. */
  async function refuse(of: Of, connection: ToolConnection): Promise<never> {
    await db.transaction(async (trx) => {
      if (!(await createToolConnectionsRepository(trx).markRefused(connection))) return;
      await audit.record(trx, {
        orgId: connection.orgId,
        actorId: null,
        action: 'tool.needs_reauth',
        target: connection.id,
        detail: { provider: connection.provider },
        requestId: of.requestId,
      });
    });
    throw appError('needs_reauth');
  }

  return {
    async use(of, toolId, call) {
      const { provider, scopes } = needsOf(toolId);
      const opened = await loadFresh(of, provider);
      if (!scopes.every((scope) => opened.connection.scopes.includes(scope))) throw appError('not_granted');
      try {
        return await call(secretOf(opened));
      } catch (error) {
        if (!isRefusal(error)) throw error;
      }
      if (!isGrant(opened)) return refuse(of, opened.connection);
      // A token may be taken back before its time, while the grant goes on.
      const renewed = await renew(of, opened, false);
      try {
        return await call(secretOf(renewed));
      } catch (error) {
        if (isRefusal(error)) return refuse(of, renewed.connection);
        throw error;
      }
    },
  };
}

function needsOf(toolId: string): { provider: string; scopes: string[] } {
  const tool = tools.find(({ id }) => id === toolId);
  if (tool === undefined || tool.provider === null) throw new Error(`${toolId} needs no connection`);
  return { provider: tool.provider, scopes: tool.actions.flatMap(({ scopes }) => scopes) };
}

function isGrant(opened: Opened): opened is OpenedGrant {
  return opened.credentials.kind === 'oauth';
}

function livesFor(ms: number, { connection: { expiresAt } }: Opened): boolean {
  return expiresAt === null || expiresAt.getTime() > Date.now() + ms;
}

function secretOf({ credentials }: Opened): string {
  return credentials.kind === 'oauth' ? credentials.accessToken : credentials.apiKey;
}

function isRefusal(error: unknown): boolean {
  return error instanceof AppError && error.code === 'needs_reauth';
}
