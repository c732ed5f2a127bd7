import { setTimeout as delay } from 'node:timers/promises';
import type { Knex } from 'knex';
import { NIL } from 'uuid';
import { AppError, appError } from '#src/errors.ts';
import type { SecretCipher } from '#src/ports/encryption.ts';
import type { OAuthClient, OAuthProvider, OAuthTokens } from '#src/ports/identity.ts';
import type { CredentialsTable, OAuthGrant, StoredCredentials } from './credentials.model.ts';
import { createCredentialsRepository } from './credentials.repository.ts';

export type { OAuthGrant } from './credentials.model.ts';

/** Remaining validity below which an access token is refreshed before a call to the provider. */
const FRESH_MS = 120_000;
/**
 * Remaining validity above which an access token is still used while another process refreshes it, or if the refresh
 * fails.
 */
const USABLE_MS = 15_000;
/** The lease to refresh OAuth tokens must be longer than the timeout of a request to a provider. */
const LEASE_SECONDS = 15;
const TIMEOUT_MS = 20_000;
const POLL_INTERVAL_MS = 100;
const PAGE_SIZE = 500;

type Keys = { kind: string };
type Grant<Row> = { row: Row; credentials: OAuthGrant };

type CredentialUse<Row> = {
  load: () => Promise<Row>;
  requestId: string;
  /**
   * True when a connection is tested: credentials are used even if the provider rejected them before, and OAuth tokens
   * are refreshed first.
   */
  isTrial?: boolean;
};

/** Calls providers with stored credentials. Refreshes OAuth tokens before they expire, in one process at a time. */
export function createCredentialsService<Row extends StoredCredentials, OwnKeys extends Keys>(deps: {
  db: Knex;
  table: CredentialsTable;
  stored: Pick<CredentialStore<OAuthGrant | OwnKeys>, 'decrypt' | 'encrypt'>;
  oauth: Pick<OAuthClient, 'refresh'>;
  settingsOf: (row: Row) => OAuthProvider;
  onRefused: (trx: Knex, row: Row, requestId: string) => Promise<void>;
  /**
   * Receives refreshed OAuth tokens that could not be stored because their row was deleted or replaced; the receiver
   * revokes them.
   */
  onUnwanted: (row: Row, grant: OAuthGrant) => Promise<void>;
}) {
  const { db, table, stored, oauth, settingsOf, onRefused, onUnwanted } = deps;
  type Decrypted = { row: Row; credentials: OAuthGrant | OwnKeys };
  const repository = createCredentialsRepository(db, table);

  async function read({ load, isTrial = false }: CredentialUse<Row>): Promise<Decrypted> {
    const row = await load();
    if (row.status === 'needs_reauth' && !isTrial) throw appError('needs_reauth');
    return { row, credentials: await stored.decrypt(row) };
  }

  async function readFresh(use: CredentialUse<Row>): Promise<Decrypted> {
    const current = await read(use);
    if (!isGrant(current)) return current;
    if (use.isTrial && current.credentials.refreshToken !== null) return renew(use, current, false);
    return livesFor(FRESH_MS, current) ? current : renew(use, current, livesFor(USABLE_MS, current));
  }

  /**
   * Refreshes OAuth tokens in one process while others wait, because a refresh token may work only once. If `isUsable`,
   * the old access token is still valid, and other processes use it instead of waiting.
   */
  async function renew(use: CredentialUse<Row>, old: Grant<Row>, isUsable: boolean): Promise<Decrypted> {
    const endMs = performance.now() + TIMEOUT_MS;
    while (performance.now() < endMs) {
      if (await repository.claimRefresh(old.row, LEASE_SECONDS)) return refresh(use, old, isUsable);
      if (isUsable) return old;
      const now = await read(use);
      if (now.row.generation !== old.row.generation) return now;
      await delay(POLL_INTERVAL_MS);
    }
    throw appError('provider_unavailable', {
      detail: 'The OAuth tokens of the connection could not be refreshed in time.',
    });
  }

  async function refresh(use: CredentialUse<Row>, old: Grant<Row>, isUsable: boolean): Promise<Decrypted> {
    const { row, credentials } = old;
    let tokens: OAuthTokens;
    try {
      if (credentials.refreshToken === null) throw appError('needs_reauth');
      tokens = await oauth.refresh(settingsOf(row), credentials.refreshToken);
    } catch (error) {
      if (isRefusal(error)) return refuse(use, row, error);
      await repository.endRefresh(row);
      if (isUsable) return old;
      throw error;
    }
    const { accessToken, expiresAt, scopes } = tokens;
    const grant: OAuthGrant = {
      kind: 'oauth',
      accessToken,
      refreshToken: tokens.refreshToken ?? credentials.refreshToken,
    };
    // The new tokens are stored before their first use, because the provider may have invalidated the old ones.
    const isStored = await repository.storeRefreshed(row, {
      credentials: stored.encrypt(row, grant),
      scopes: scopes ?? row.scopes,
      expiresAt,
    });
    if (!isStored) await onUnwanted(row, { ...grant, refreshToken: tokens.refreshToken });
    return read(use);
  }

  /** Marks the row as `needs_reauth`: only the user can repair it, by a new consent or new keys. */
  async function refuse({ requestId }: CredentialUse<Row>, row: Row, error: AppError): Promise<never> {
    await db.transaction(async (trx) => {
      const isFirst = await createCredentialsRepository(trx, table).markRefused(row);
      if (isFirst) await onRefused(trx, row, requestId);
    });
    throw error;
  }

  return {
    /** Calls a provider with stored credentials. Throws `needs_reauth` if it rejects them, and errors of `call`. */
    async use<Result>(
      use: CredentialUse<Row>,
      call: (credentials: OAuthGrant | OwnKeys, row: Row) => Promise<Result>,
    ): Promise<Result> {
      const current = await readFresh(use);
      try {
        return await call(current.credentials, current.row);
      } catch (error) {
        if (!isRefusal(error)) throw error;
        if (!isGrant(current) || use.isTrial) return refuse(use, current.row, error);
        // Tries again with a new token: a provider may revoke an access token early while the grant stays valid.
        const renewed = await renew(use, current, false);
        try {
          return await call(renewed.credentials, renewed.row);
        } catch (again) {
          if (isRefusal(again)) return refuse(use, renewed.row, again);
          throw again;
        }
      }
    },
  };

  function isGrant(decrypted: Decrypted): decrypted is Grant<Row> {
    return decrypted.credentials.kind === 'oauth';
  }
}

export type CredentialsService<Row extends StoredCredentials, OwnKeys extends Keys> = ReturnType<
  typeof createCredentialsService<Row, OwnKeys>
>;

function livesFor<Row extends StoredCredentials>(ms: number, { row: { expiresAt } }: Grant<Row>): boolean {
  return expiresAt === null || expiresAt.getTime() > Date.now() + ms;
}

function isRefusal(error: unknown): error is AppError {
  return error instanceof AppError && error.code === 'needs_reauth';
}

type Place = Pick<StoredCredentials, 'orgId' | 'id'>;

export function createCredentialStore<Credentials>(deps: { db: Knex; secrets: SecretCipher; table: CredentialsTable }) {
  const { db, secrets, table } = deps;
  const repository = createCredentialsRepository(db, table);
  const associatedDataOf = ({ orgId, id }: Place) => `${table}/${orgId}/${id}`;

  /** Decrypts credentials, and re-encrypts those of an older encryption key. Throws `credentials_unreadable`. */
  async function decrypt(row: StoredCredentials): Promise<Credentials> {
    const associatedData = associatedDataOf(row);
    const { secret, isStale } = secrets.decrypt(row.credentials, associatedData);
    if (isStale) await repository.reencrypt(row, secrets.encrypt(secret, associatedData));
    return JSON.parse(secret) as Credentials;
  }

  function isReadable(row: StoredCredentials): boolean {
    try {
      secrets.decrypt(row.credentials, associatedDataOf(row));
      return true;
    } catch {
      return false;
    }
  }

  return {
    encrypt: (row: Place, credentials: Credentials): string =>
      secrets.encrypt(JSON.stringify(credentials), associatedDataOf(row)),

    decrypt,

    async countUnreadable(): Promise<number> {
      let count = 0;
      for (let after: string = NIL; ; ) {
        const some = await repository.list(after, PAGE_SIZE);
        for (const row of some) if (!isReadable(row)) count += 1;
        const last = some.at(-1);
        if (last === undefined) return count;
        after = last.id;
      }
    },

    /**
     * Re-encrypts all credentials with the active key, so that older keys can be removed from the settings.
     * `unreadable` counts the rows that no configured key can decrypt.
     */
    async reencrypt(): Promise<{ reencrypted: number; unreadable: number }> {
      const counts = { reencrypted: 0, unreadable: 0 };
      for (let after: string = NIL; ; ) {
        const some = await repository.listEncryptedByOthers(secrets.activeKeyId, after, PAGE_SIZE);
        for (const row of some) {
          const isDecrypted = await decrypt(row).then(
            () => true,
            () => false,
          );
          counts[isDecrypted ? 'reencrypted' : 'unreadable'] += 1;
        }
        const last = some.at(-1);
        if (last === undefined) return counts;
        after = last.id;
      }
    },
  };
}

export type CredentialStore<Credentials> = ReturnType<typeof createCredentialStore<Credentials>>;
