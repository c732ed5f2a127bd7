import { setTimeout as delay } from 'node:timers/promises';
import type { Knex } from 'knex';
import { maskSecret } from '#src/domain/access/credentials.ts';
import { makeOnce } from '#src/domain/access/idempotency.ts';
import { can } from '#src/domain/access/policy.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import type { SyncConfig } from '#src/domain/documents/imports.ts';
import { canonicalJson } from '#src/domain/text/canonical-json.ts';
import { AppError, appError, type ExpectedVersions, fieldError, requireVersion } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { CredentialStore } from '#src/modules/credentials/credentials.service.ts';
import type { AccessChangesService } from '#src/modules/organization/access-changes.service.ts';
import type { ConnectorAccesses, RemoteFile, RemotePage } from '#src/ports/connectors.ts';
import type { FairQueue } from '#src/ports/limits.ts';
import { checkFailed } from './check-failed.ts';
import type {
  Connection,
  ConnectionConfig,
  ConnectionCredentials,
  ConnectionView,
  StoredKeys,
} from './connections.model.ts';
import { createConnectionsRepository } from './connections.repository.ts';
import type { ConfigChange } from './connections.schema.ts';
import { accessOf } from './connector-access.ts';
import { type ConnectorCredentialsService, lastErrorOf } from './connector-credentials.service.ts';
import type { RevokeGrant } from './grant-revoker.ts';

/** One look into a folder ends with the page that reaches this, or after so many pages. */
const FILES_AT_ONCE = 1_000;
const PAGES_AT_ONCE = 20;
/** Three pages with fewer files than this on average end a look, too: the work of a page is not in its files alone. */
const FILES_OF_PAGE = 10;
const POOR_PAGES = 3;
/**
 * Its answers are parsed on the main thread: a look that held the event loop keeps its turn so many times as long, and
 * for a second at most.
 */
const PAUSES = 3;
const LONGEST_PAUSE_MS = 1_000;
/** A further page is not begun later: what is there by then is shown. */
const BROWSE_MS = 10_000;

/** What a provider answers that accepts a connection which is good for nothing. */
const useless: readonly string[] = ['not_granted', 'provider_rejected', 'remote_file_not_found', 'url_not_allowed'];

/** What follows from a connection for its imports and its schedule. */
export type ConnectionSyncs = {
  /** Throws `validation_failed` for a folder that the caller may not write to, and times that nobody understands. */
  check(actor: RequestActor, sync: SyncConfig): Promise<void>;
  /** After the commit: makes the schedule and what is parked or running follow the connection, which may be gone. */
  apply(of: { orgId: string; connectionId: string }): Promise<void>;
};

export type NewKeyConnection = { displayName: string; keys: StoredKeys; config: ConnectionConfig };

export type ConnectionChange = {
  displayName?: string | undefined;
  keys?: StoredKeys | undefined;
  config?: ConfigChange | undefined;
};

/** Connections of users, each of whom sees and changes his own. */
export function createConnectionsService(deps: {
  db: Knex;
  access: ConnectorAccesses;
  stored: Pick<CredentialStore<ConnectionCredentials>, 'encrypt' | 'decrypt'>;
  credentials: ConnectorCredentialsService;
  accessChanges: Pick<AccessChangesService, 'change'>;
  revokeGrant: RevokeGrant;
  syncs: ConnectionSyncs;
  audit: AuditService;
  /** Organizations take turns to browse. */
  browseInTurn: FairQueue;
}) {
  const { db, access, stored, credentials, accessChanges, revokeGrant, syncs, audit, browseInTurn } = deps;

  function readable(actor: RequestActor, connection: Connection | undefined): Connection {
    if (connection !== undefined && can(actor, 'connection:read', connection)) return connection;
    throw appError('connection_not_found');
  }

  async function find(actor: RequestActor, id: string): Promise<Connection> {
    return readable(actor, await createConnectionsRepository(db).find(actor.orgId, id));
  }

  function lookInTurn(orgId: string, look: () => Promise<RemotePage>): Promise<RemotePage> {
    const answer = Promise.withResolvers<RemotePage>();
    const turn = browseInTurn(orgId, async () => {
      const before = performance.eventLoopUtilization();
      await look().then(answer.resolve, answer.reject);
      const { active } = performance.eventLoopUtilization(before);
      await delay(Math.min(PAUSES * active, LONGEST_PAUSE_MS));
    });
    turn.catch(answer.reject);
    return answer.promise;
  }

  async function lock(trx: Knex, actor: RequestActor, id: string): Promise<Connection> {
    return readable(actor, await createConnectionsRepository(trx).lock(actor.orgId, id));
  }

  /** A grant whose encryption key is missing cannot be decrypted, and therefore not revoked. */
  async function takeBack(connection: Connection): Promise<void> {
    const opened = await stored.decrypt(connection).catch(() => null);
    if (opened?.kind === 'oauth') await revokeGrant(connection, opened, connection.id);
  }

  /** Nothing is shown of what no key opens. */
  async function viewOf(connection: Connection): Promise<ConnectionView> {
    const secrets = await stored.decrypt(connection).then(secretsOf, () => ({}));
    const credentialsMasked = Object.fromEntries(
      Object.entries(secrets).map(([name, secret]) => [name, maskSecret(secret)]),
    );
    return { ...connection, credentialsMasked };
  }

  async function get(actor: RequestActor, id: string): Promise<ConnectionView> {
    return viewOf(await find(actor, id));
  }

  /** Throws `connection_check_failed`, `provider_unavailable`, `provider_throttled`. */
  async function check(config: ConnectionConfig, keys: ConnectionCredentials) {
    return access.connectors.acme_s3.check(accessOf({ config }, keys)).catch(checkFailed);
  }

  /** What is to be tried before it is stored; null where nothing of it changes. */
  async function trial(connection: Connection, { keys, config = {} }: ConnectionChange) {
    if (connection.provider !== 'acme_s3' && keys !== undefined) {
      throw fieldError('credentials', 'are given by a consent at the provider', 'credentials');
    }
    const changed = changesOf(connection, config).filter((name) => name !== 'sync');
    const [fixed] = changed.filter((name) => connection.provider !== 'acme_s3' || name === 'site_id');
    if (fixed !== undefined) throw fieldError(`config.${fixed}`, 'does not change: make another connection', 'fixed');
    if (keys === undefined && changed.length === 0) return null;
    const wanted = withChanges(connection.config, config);
    const opened = keys ?? (await stored.decrypt(connection));
    return { account: await check(wanted, opened), credentials: opened };
  }

  async function record(
    trx: Knex,
    actor: RequestActor,
    connection: Pick<Connection, 'id' | 'provider'>,
    action: string,
  ) {
    const { orgId, userId, requestId } = actor;
    const { id: target, provider } = connection;
    await audit.record(trx, { orgId, actorId: userId, action, target, detail: { provider }, requestId });
  }

  return {
    get,

    /** The caller's own, oldest first. */
    async list(actor: RequestActor): Promise<ConnectionView[]> {
      return Promise.all((await createConnectionsRepository(db).listOf(actor)).map(viewOf));
    },

    /**
     * To a bucket. Throws `connection_check_failed`, `connection_limit_reached`, `provider_unavailable`,
     * `provider_throttled`, `validation_failed`.
     */
    async createByKeys(
      actor: RequestActor,
      id: string,
      { displayName, keys, config }: NewKeyConnection,
    ): Promise<ConnectionView> {
      const { orgId, userId } = actor;
      const make = async () => {
        if (config.sync !== undefined) await syncs.check(actor, config.sync);
        const { accountId } = await check(config, keys);
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
      await makeOnce(make, () => createConnectionsRepository(db).find(orgId, id));
      await syncs.apply({ orgId, connectionId: id });
      return get(actor, id);
    },

    /**
     * What the provider is asked with is tried first. Throws `connection_not_found`, `connection_check_failed`,
     * `credentials_unreadable`, `precondition_failed`, `provider_unavailable`, `provider_throttled`,
     * `validation_failed`.
     */
    async change(
      actor: RequestActor,
      id: string,
      change: ConnectionChange,
      expected: ExpectedVersions,
    ): Promise<ConnectionView> {
      const { orgId } = actor;
      const before = await find(actor, id);
      if (change.config?.sync) await syncs.check(actor, change.config.sync);
      const tried = await trial(before, change);
      await db.transaction(async (trx) => {
        const connection = await lock(trx, actor, id);
        requireVersion(expected, connection);
        // What was tried is what is stored.
        if (tried !== null && !isSame(before, connection)) throw appError('precondition_failed');
        const { displayName = connection.displayName, config = {} } = change;
        const isRenamed = displayName !== connection.displayName;
        const repository = createConnectionsRepository(trx);
        if (tried === null && !isRenamed && changesOf(connection, config).length === 0) {
          return repository.incrementVersion(connection);
        }
        await repository.update(connection, {
          displayName,
          config: withChanges(connection.config, config),
          ...(tried !== null && {
            accountId: tried.account.accountId,
            credentials: stored.encrypt(connection, tried.credentials),
          }),
        });
        await record(trx, actor, connection, 'connection.changed');
      });
      await syncs.apply({ orgId, connectionId: id });
      return get(actor, id);
    },

    /**
     * Asks the provider whether it accepts the connection, and keeps the answer as its status. Throws
     * `connection_not_found`, `connection_check_failed` where it is accepted and of no use, `credentials_unreadable`,
     * `precondition_failed`, `provider_not_configured`, `provider_unavailable`, `provider_throttled`.
     */
    async refresh(actor: RequestActor, id: string, expected: ExpectedVersions): Promise<ConnectionView> {
      const { orgId, requestId } = actor;
      const of = { orgId, connectionId: id, requestId };
      await db.transaction(async (trx) => {
        const connection = await lock(trx, actor, id);
        requireVersion(expected, connection);
        await createConnectionsRepository(trx).incrementVersion(connection);
      });
      const repository = createConnectionsRepository(db);
      try {
        await credentials.check(of);
        await repository.setState({ orgId, id }, { status: 'active', lastError: null });
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        if (error.code === 'needs_reauth') return get(actor, id);
        if (useless.includes(error.code)) {
          await repository.setState({ orgId, id }, { status: 'error', lastError: lastErrorOf(error) });
        }
        return checkFailed(error);
      }
      await syncs.apply(of);
      return get(actor, id);
    },

    /** Takes the grant back where that is possible. Throws `connection_not_found`. */
    async remove(actor: RequestActor, id: string): Promise<void> {
      const { orgId } = actor;
      const connection = await db.transaction(async (trx) => {
        const found = await lock(trx, actor, id);
        await createConnectionsRepository(trx).remove(found);
        await record(trx, actor, found, 'connection.deleted');
        return found;
      });
      await syncs.apply({ orgId, connectionId: id });
      await takeBack(connection);
    },

    /** Of somebody who has left. As a step that is repeated, it takes the grant back before it forgets it. */
    async forget(of: { orgId: string; connectionId: string }): Promise<void> {
      const repository = createConnectionsRepository(db);
      const connection = await repository.find(of.orgId, of.connectionId);
      if (connection !== undefined) {
        await takeBack(connection);
        await repository.remove(connection);
      }
      await syncs.apply(of);
    },

    /**
     * What is in a folder, by some pages of the provider. Throws `connection_not_found`, `remote_file_not_found` and
     * what using a connection throws.
     * @param page where an earlier look has ended
     */
    async browse(actor: RequestActor, id: string, path: string, page: string | null): Promise<RemotePage> {
      const { orgId, requestId } = actor;
      await find(actor, id);
      return lookInTurn(orgId, () =>
        credentials.use({ orgId, connectionId: id, requestId }, async (opened, connector) => {
          const files: RemoteFile[] = [];
          const endsAtMs = performance.now() + BROWSE_MS;
          let nextPage = page;
          for (let pages = 1; ; pages += 1) {
            const found = await connector.list(opened, { path }, nextPage);
            files.push(...found.files);
            nextPage = found.nextPage;
            const isPoor = pages >= POOR_PAGES && files.length < pages * FILES_OF_PAGE;
            const isEnough = files.length >= FILES_AT_ONCE || pages >= PAGES_AT_ONCE || isPoor;
            if (nextPage === null || isEnough || performance.now() > endsAtMs) return { files, nextPage };
          }
        }),
      );
    },
  };
}

export type ConnectionsService = ReturnType<typeof createConnectionsService>;

/** By their names on the wire. */
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

/** What is null is taken away. */
function withChanges(config: ConnectionConfig, change: ConfigChange): ConnectionConfig {
  const merged = Object.entries({ ...config, ...change }).filter(([, value]) => value !== null && value !== undefined);
  return Object.fromEntries(merged);
}

/** The names of what really changes. */
function changesOf({ config }: Connection, change: ConfigChange): string[] {
  const after = new Map<string, unknown>(Object.entries(withChanges(config, change)));
  const before = new Map<string, unknown>(Object.entries(config));
  return Object.keys(change).filter(
    (name) => canonicalJson(before.get(name) ?? null) !== canonicalJson(after.get(name) ?? null),
  );
}

function isSame(one: Connection, other: Connection): boolean {
  return one.generation === other.generation && canonicalJson(one.config) === canonicalJson(other.config);
}
