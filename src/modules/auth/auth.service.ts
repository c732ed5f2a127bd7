import { v7 as uuidv7 } from 'uuid';
import type { Actor } from '#src/domain/visibility.ts';
import { appError, type ErrorCode } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { AccessTokens, Caller } from '#src/ports/access-tokens.ts';
import type { Db } from '#src/ports/database.ts';
import type { PasswordHasher } from '#src/ports/password-hasher.ts';
import { createAccountsRepository } from './accounts.repository.ts';
import type { AccountsService } from './accounts.service.ts';
import type { Account, SignIn } from './auth.model.ts';
import type { LoginBody, RegisterBody } from './auth.schema.ts';
import type { Session, SessionsService } from './sessions.service.ts';

export type AuthService = ReturnType<typeof createAuthService>;

export type AuthServiceDeps = {
  db: Db;
  passwords: PasswordHasher;
  accessTokens: AccessTokens;
  accounts: Pick<AccountsService, 'prepare' | 'createOrganization'>;
  sessions: SessionsService;
  audit: AuditService;
};

/** Accounts and their ways in. */
export function createAuthService(deps: AuthServiceDeps) {
  const { db, passwords, accessTokens, accounts, sessions, audit } = deps;

  async function signIn(trx: Db, account: Account, session: Session, isNewUser: boolean): Promise<SignIn> {
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

  async function recordRefusal(account: Account | undefined, reason: ErrorCode, requestId: string): Promise<void> {
    const [orgId, target] = [account?.orgId ?? null, account?.userId ?? null];
    await audit.record(db, { orgId, actorId: null, action: 'session.refused', target, detail: { reason }, requestId });
  }

  async function login(input: LoginBody, requestId: string): Promise<SignIn> {
    const users = createAccountsRepository(db);
    const account = await users.findByEmail(input.email);
    const stored = account?.passwordHash ?? null;
    const isRight = await passwords.verify(stored, input.password);
    if (account === undefined || stored === null || !isRight) {
      // For unknown accounts too, and without the name that was tried: people type passwords there.
      await recordRefusal(account, 'invalid_credentials', requestId);
      throw appError('invalid_credentials');
    }
    // Only to who knows the password: others must not learn that the account is there.
    if (account.isDisabled) {
      await recordRefusal(account, 'account_disabled', requestId);
      throw appError('account_disabled', { detail: 'Ask an admin of your organization.' });
    }
    const { userId, orgId } = account;
    let passwordHash = stored;
    if (passwords.isOutdated(stored)) {
      const renewed = await passwords.hash(input.password);
      if (await users.replacePassword(userId, stored, renewed)) passwordHash = renewed;
    }
    const signedIn = await db.transaction(async (trx) => {
      // A change of the password waits, and ends this session with the others; after one this password may be wrong.
      if (!(await createAccountsRepository(trx).holdPassword(userId, passwordHash))) return undefined;
      const session = await sessions.open(trx, userId);
      const entry = { orgId, actorId: userId, target: session.sessionId, requestId };
      await audit.record(trx, { ...entry, action: 'session.opened' });
      return signIn(trx, account, session, false);
    });
    return signedIn ?? login(input, requestId);
  }

  return {
    /** Creates an organization and its first user, who is its admin. */
    async register(input: RegisterBody, requestId: string): Promise<SignIn> {
      const founder = await accounts.prepare(input);
      const { userId, displayName } = founder;
      const orgId = uuidv7();
      return db.transaction(async (trx) => {
        await accounts.createOrganization(trx, founder, {
          orgId,
          name: input.orgName ?? `${displayName}'s organization`,
        });
        const entry = { orgId, actorId: userId, target: userId, requestId };
        await audit.record(trx, { ...entry, action: 'account.registered' });
        const account = await createAccountsRepository(trx).findById(userId);
        if (account === undefined) throw appError('internal_error');
        return signIn(trx, account, await sessions.open(trx, userId), true);
      });
    },

    login,

    /** A new pair for a refresh token, which is used up by it. */
    refresh(refreshToken: string, requestId: string): Promise<SignIn> {
      return sessions.rotate(refreshToken, requestId, async (trx, session) => {
        const account = await createAccountsRepository(trx).findById(session.userId);
        if (account === undefined) throw appError('refresh_invalid');
        return signIn(trx, account, session, false);
      });
    },

    logout(refreshToken: string, requestId: string): Promise<void> {
      return sessions.close(refreshToken, requestId);
    },

    /** The user as he is now; null when his account is disabled or gone. */
    async findActor(userId: string): Promise<Actor | null> {
      return (await createAccountsRepository(db).findActor(userId)) ?? null;
    },

    /** The user behind a verified token; null when his account is disabled or gone, or this session was cut off. */
    async findCaller({ userId, sessionId }: Caller): Promise<Actor | null> {
      return (await createAccountsRepository(db).findCaller(userId, sessionId)) ?? null;
    },

    /** Which of these sessions go on: those that `findCaller` would find a user for. */
    async activeSessions(sessionIds: readonly string[]): Promise<ReadonlySet<string>> {
      return new Set(await createAccountsRepository(db).listActiveSessions(sessionIds));
    },

    keySet: () => accessTokens.keySet(),
  };
}
