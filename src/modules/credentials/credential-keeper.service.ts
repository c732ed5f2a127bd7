import { setTimeout as delay } from 'node:timers/promises';
import type { Knex } from 'knex';
import { AppError, appError } from '#src/errors.ts';
import type { OAuthClient, OAuthProvider, OAuthTokens } from '#src/ports/identity.ts';
import type { CredentialsTable, OAuthGrant, StoredCredentials } from './credentials.model.ts';
import { createCredentialsRepository } from './credentials.repository.ts';
import type { StoredCredentialsService } from './stored-credentials.service.ts';

/** A token that lives so long is not renewed before a call. */
const FRESH_MS = 120_000;
/** One that lives so long still does while the provider, or a colleague, is busy with the next one. */
const USABLE_MS = 15_000;
/** Longer than a provider may take to answer. */
const LEASE_SECONDS = 15;
const TIMEOUT_MS = 20_000;
const POLL_INTERVAL_MS = 100;

type Keys = { kind: string };
type Grant<Row> = { row: Row; credentials: OAuthGrant };

/** One use of a row's credentials. */
export type CredentialUse<Row> = {
  /** Reads the row as it is now, each time. */
  load: () => Promise<Row>;
  requestId: string;
  /** Whatever is known of it: a refused connection is tried once more, and tokens are renewed first. */
  isTrial?: boolean;
};

/**
 * Opens the credentials of a table for calls: when they are needed, renewed before they are too old, and by one process
 * at a time.
 */
export function createCredentialKeeper<Row extends StoredCredentials, OwnKeys extends Keys>(deps: {
  db: Knex;
  table: CredentialsTable;
  stored: Pick<StoredCredentialsService<OAuthGrant | OwnKeys>, 'open' | 'seal'>;
  oauth: Pick<OAuthClient, 'refresh'>;
  /** Throws `provider_not_configured`. */
  settingsOf: (row: Row) => OAuthProvider;
  /** In the transaction that marks a row as `needs_reauth`. */
  onRefused: (trx: Knex, row: Row, requestId: string) => Promise<void>;
  /** Tokens came for a row that is gone, or was made anew, by now. */
  onUnwanted: (row: Row, grant: OAuthGrant) => Promise<void>;
}) {
  const { db, table, stored, oauth, settingsOf, onRefused, onUnwanted } = deps;
  type Opened = { row: Row; credentials: OAuthGrant | OwnKeys };
  const repository = createCredentialsRepository(db, table);

  async function open({ load, isTrial = false }: CredentialUse<Row>): Promise<Opened> {
    const row = await load();
    if (row.status === 'needs_reauth' && !isTrial) throw appError('needs_reauth');
    return { row, credentials: await stored.open(row) };
  }

  async function openFresh(use: CredentialUse<Row>): Promise<Opened> {
    const opened = await open(use);
    if (!isGrant(opened)) return opened;
    if (use.isTrial && opened.credentials.refreshToken !== null) return renew(use, opened, false);
    return livesFor(FRESH_MS, opened) ? opened : renew(use, opened, livesFor(USABLE_MS, opened));
  }

  /**
   * One process asks for new tokens and all others wait for them, since each use of a refresh token may be its last.
   * `isUsable`: what is there will do for now.
   */
  async function renew(use: CredentialUse<Row>, old: Grant<Row>, isUsable: boolean): Promise<Opened> {
    const endMs = performance.now() + TIMEOUT_MS;
    while (performance.now() < endMs) {
      if (await repository.claimRefresh(old.row, LEASE_SECONDS)) return refresh(use, old, isUsable);
      if (isUsable) return old;
      const now = await open(use);
      if (now.row.generation !== old.row.generation) return now;
      await delay(POLL_INTERVAL_MS);
    }
    throw appError('provider_unavailable', { detail: 'Its tokens could not be renewed in time.' });
  }

  async function refresh(use: CredentialUse<Row>, old: Grant<Row>, isUsable: boolean): Promise<Opened> {
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
    // Stored before it is used: the provider may not know the old ones any more.
    const isStored = await repository.storeRefreshed(row, {
      credentials: stored.seal(row, grant),
      scopes: scopes ?? row.scopes,
      expiresAt,
    });
    if (!isStored) await onUnwanted(row, { ...grant, refreshToken: tokens.refreshToken });
    return open(use);
  }

  /** From here on only its owner can help. */
  async function refuse({ requestId }: CredentialUse<Row>, row: Row, error: AppError): Promise<never> {
    await db.transaction(async (trx) => {
      const isNews = await createCredentialsRepository(trx, table).markRefused(row);
      if (isNews) await onRefused(trx, row, requestId);
    });
    throw error;
  }

  return {
    /** Throws `needs_reauth` once the provider does not accept them, and what `load` and `call` throw. */
    async use<Result>(
      use: CredentialUse<Row>,
      call: (credentials: OAuthGrant | OwnKeys, row: Row) => Promise<Result>,
    ): Promise<Result> {
      const opened = await openFresh(use);
      try {
        return await call(opened.credentials, opened.row);
      } catch (error) {
        if (!isRefusal(error)) throw error;
        if (!isGrant(opened) || use.isTrial) return refuse(use, opened.row, error);
        // A token may be taken back before its time, while the grant goes on.
        const renewed = await renew(use, opened, false);
        try {
          return await call(renewed.credentials, renewed.row);
        } catch (again) {
          if (isRefusal(again)) return refuse(use, renewed.row, again);
          throw again;
        }
      }
    },
  };

  function isGrant(opened: Opened): opened is Grant<Row> {
    return opened.credentials.kind === 'oauth';
  }
}

export type CredentialKeeper<Row extends StoredCredentials, OwnKeys extends Keys> = ReturnType<
  typeof createCredentialKeeper<Row, OwnKeys>
>;

function livesFor<Row extends StoredCredentials>(ms: number, { row: { expiresAt } }: Grant<Row>): boolean {
  return expiresAt === null || expiresAt.getTime() > Date.now() + ms;
}

function isRefusal(error: unknown): error is AppError {
  return error instanceof AppError && error.code === 'needs_reauth';
}
