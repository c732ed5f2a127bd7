import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError, type ErrorCode } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { AccessTokens, ApiKeyUser, Caller, PasswordHasher } from '#src/ports/identity.ts';
import { createAccountsRepository } from './accounts.repository.ts';
import type { AccountsService } from './accounts.service.ts';
import type { Account, NewUser, SignInRequestOrigin, SignInResult } from './auth.model.ts';
import type { LoginBody, RegisterBody } from './auth.schema.ts';
import type { Session, SessionsService } from './sessions.service.ts';
import type { SignInDelay } from './sign-in-delay.service.ts';

export type AuthService = ReturnType<typeof createAuthService>;

export function createAuthService(deps: {
  db: Knex;
  passwords: PasswordHasher;
  accessTokens: AccessTokens;
  accounts: Pick<AccountsService, 'prepare' | 'createOrganization'>;
  sessions: Pick<SessionsService, 'open' | 'rotate' | 'close'>;
  signInDelay: SignInDelay;
  audit: AuditService;
}) {
  const { db, passwords, accessTokens, accounts, sessions, signInDelay, audit } = deps;

  async function login(input: LoginBody, origin: SignInRequestOrigin): Promise<SignInResult> {
    const { requestId, client } = origin;
    const users = createAccountsRepository(db);
    const account = await users.findByEmail(input.email);
    await signInDelay.countAttempt(input.email, account, client);
    const stored = account?.passwordHash ?? null;
    const isRight = await passwords.verify(stored, input.password, client.network);
    if (account === undefined || stored === null || !isRight) {
      // Failed sign-ins with an unknown email are recorded too, but without that email: users sometimes type their
      // password into the email field.
      await recordRefusal(account, 'invalid_credentials', requestId);
      throw appError('invalid_credentials');
    }
    await signInDelay.forgetFailures(input.email);
    // Refuses a disabled account only after the password was checked, so that a client without the password cannot
    // learn that the account exists.
    if (account.isDisabled) {
      await recordRefusal(account, 'account_disabled', requestId);
      throw appError('account_disabled', { detail: 'Ask an admin of your organization to enable the account.' });
    }
    const { userId } = account;
    let passwordHash = stored;
    if (passwords.isOutdated(stored)) {
      const renewed = await passwords.hash(input.password, client.network);
      if (await users.renewHash(userId, stored, renewed)) passwordHash = renewed;
    }
    const signedIn = await db.transaction(async (trx) => {
      // Locks the user's row, so that a concurrent password change waits and then ends the session opened here too. If
      // the password has already changed, the sign-in starts again. Sign-ins of one user do not wait for each other:
      // the waiting ones would occupy all connections of the pool.
      if (!(await createAccountsRepository(trx).lockPassword(userId, passwordHash, 'share'))) return undefined;
      return openSession(trx, account, origin);
    });
    return signedIn ?? login(input, origin);
  }

  async function recordRefusal(account: Account | undefined, reason: ErrorCode, requestId: string): Promise<void> {
    const [orgId, target] = [account?.orgId ?? null, account?.userId ?? null];
    const entry = { orgId, actorId: null, action: 'session.refused', target, requestId };
    await audit.record(db, { ...entry, detail: { reason } });
  }

  /** Signs in a user whose row the caller has locked until the transaction ends. Throws `account_disabled`. */
  async function openSession(
    trx: Knex,
    account: Account,
    { requestId, client }: SignInRequestOrigin,
  ): Promise<SignInResult> {
    const { userId, orgId } = account;
    const session = await sessions.open(trx, userId, client);
    const entry = { orgId, actorId: userId, target: session.sessionId, requestId };
    await audit.record(trx, { ...entry, action: 'session.opened' });
    return issueTokens(trx, account, session, false);
  }

  /** Creates a user with an organization, whose admin they are, and signs them in. Throws `email_taken`. */
  async function registerFounder(
    trx: Knex,
    founder: NewUser,
    orgName: string | undefined,
    { requestId, client }: SignInRequestOrigin,
  ): Promise<SignInResult> {
    const { userId, displayName } = founder;
    const orgId = uuidv7();
    await accounts.createOrganization(trx, founder, { orgId, name: orgName ?? `${displayName}'s organization` });
    await audit.record(trx, { orgId, actorId: userId, action: 'account.registered', target: userId, requestId });
    const account = await createAccountsRepository(trx).findById(userId);
    if (account === undefined) throw appError('internal_error');
    return issueTokens(trx, account, await sessions.open(trx, userId, client), true);
  }

  async function issueTokens(trx: Knex, account: Account, session: Session, isNewUser: boolean): Promise<SignInResult> {
    const actor = await createAccountsRepository(trx).findActor(account.userId);
    if (actor === undefined) throw appError('account_disabled');
    const accessToken = await accessTokens.sign({ ...actor, sessionId: session.sessionId, tier: account.tier });
    return {
      accessToken,
      expiresInSeconds: accessTokens.lifetimeSeconds,
      refreshToken: session.refreshToken,
      account,
      isNewUser,
    };
  }

  return {
    async register(input: RegisterBody, origin: SignInRequestOrigin): Promise<SignInResult> {
      const founder = await accounts.prepare(input, origin.client.network);
      return db.transaction((trx) => registerFounder(trx, founder, input.orgName, origin));
    },

    login,

    refresh(refreshToken: string, requestId: string): Promise<SignInResult> {
      return sessions.rotate(refreshToken, requestId, async (trx, session) => {
        const account = await createAccountsRepository(trx).findById(session.userId);
        if (account === undefined) throw appError('refresh_invalid');
        return issueTokens(trx, account, session, false);
      });
    },

    logout(refreshToken: string, requestId: string): Promise<void> {
      return sessions.close(refreshToken, requestId);
    },

    /** Returns the user with their current rights; null if the account is disabled or deleted. */
    async findActor(userId: string): Promise<Actor | null> {
      return (await createAccountsRepository(db).findActor(userId)) ?? null;
    },

    findActors: (userIds: readonly string[]): Promise<Actor[]> => createAccountsRepository(db).findActors(userIds),

    /** Returns the user of an access token; null if the session has ended or the account is disabled or deleted. */
    async findCaller({ userId, sessionId }: Caller): Promise<Actor | null> {
      return (await createAccountsRepository(db).findCaller(userId, sessionId)) ?? null;
    },

    /** Returns the user of an API key with the key's scopes; null if the key is unknown, expired or revoked. */
    async findKeyCaller(secretHash: Buffer): Promise<ApiKeyUser | null> {
      const accounts = createAccountsRepository(db);
      const found = await accounts.findKeyCaller(secretHash);
      if (found === undefined) return null;
      const { actor, secretId, scopes, isUseOutdated } = found;
      if (isUseOutdated) await accounts.recordKeyUse(secretId);
      return { actor, sessionId: secretId, scopes };
    },

    async activeSessions(sessionIds: readonly string[]): Promise<ReadonlySet<string>> {
      return new Set(await createAccountsRepository(db).listActiveSessions(sessionIds));
    },

    keySet: () => accessTokens.keySet(),

    openSession,
    registerFounder,
    recordRefusal,
  };
}
