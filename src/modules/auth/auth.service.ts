import type { Knex } from 'knex';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { AccessTokens, Caller, PasswordHasher } from '#src/ports/identity.ts';
import { createAccountsRepository } from './accounts.repository.ts';
import type { AccountsService } from './accounts.service.ts';
import type { SignIn, SignInOrigin } from './auth.model.ts';
import type { LoginBody, RegisterBody } from './auth.schema.ts';
import type { SessionsService } from './sessions.service.ts';
import type { SignInDelay } from './sign-in-delay.ts';
import type { SignIns } from './sign-ins.ts';

export type AuthService = ReturnType<typeof createAuthService>;

export type AuthServiceDeps = {
  db: Knex;
  passwords: PasswordHasher;
  accessTokens: AccessTokens;
  accounts: Pick<AccountsService, 'prepare'>;
  sessions: Pick<SessionsService, 'rotate' | 'close'>;
  signIns: SignIns;
  delay: SignInDelay;
};

/** Accounts and their ways in. */
export function createAuthService(deps: AuthServiceDeps) {
  const { db, passwords, accessTokens, accounts, sessions, signIns, delay } = deps;

  async function login(input: LoginBody, origin: SignInOrigin): Promise<SignIn> {
    const { requestId, client } = origin;
    const users = createAccountsRepository(db);
    const account = await users.findByEmail(input.email);
    await delay.take(input.email, account, client);
    const stored = account?.passwordHash ?? null;
    const isRight = await passwords.verify(stored, input.password, client.network);
    if (account === undefined || stored === null || !isRight) {
      // For unknown accounts too, and without the name that was tried: people type passwords there.
      await signIns.recordRefusal(account, 'invalid_credentials', requestId);
      throw appError('invalid_credentials');
    }
    await delay.reset(input.email);
    // Only to who knows the password: others must not learn that the account is there.
    if (account.isDisabled) {
      await signIns.recordRefusal(account, 'account_disabled', requestId);
      throw appError('account_disabled', { detail: 'Ask an admin of your organization.' });
    }
    const { userId } = account;
    let passwordHash = stored;
    if (passwords.isOutdated(stored)) {
      const renewed = await passwords.hash(input.password, client.network);
      if (await users.renewHash(userId, stored, renewed)) passwordHash = renewed;
    }
    const signedIn = await db.transaction(async (trx) => {
      // A change of the password waits, and ends this session with the others; after one this password may be wrong.
      if (!(await createAccountsRepository(trx).holdPassword(userId, passwordHash))) return undefined;
      return signIns.open(trx, account, origin);
    });
    return signedIn ?? login(input, origin);
  }

  return {
    /** Creates an organization and its first user, who is its admin. */
    async register(input: RegisterBody, origin: SignInOrigin): Promise<SignIn> {
      const founder = await accounts.prepare(input, origin.client.network);
      return db.transaction((trx) => signIns.register(trx, founder, input.orgName, origin));
    },

    login,

    /** A new pair for a refresh token, which is used up by it. */
    refresh(refreshToken: string, requestId: string): Promise<SignIn> {
      return sessions.rotate(refreshToken, requestId, async (trx, session) => {
        const account = await createAccountsRepository(trx).findById(session.userId);
        if (account === undefined) throw appError('refresh_invalid');
        return signIns.issue(trx, account, session, false);
      });
    },

    logout(refreshToken: string, requestId: string): Promise<void> {
      return sessions.close(refreshToken, requestId);
    },

    /** The user as he is now; null when his account is disabled or gone. */
    async findActor(userId: string): Promise<Actor | null> {
      return (await createAccountsRepository(db).findActor(userId)) ?? null;
    },

    /** Those of the users whose accounts are active, as they are now. */
    findActors: (userIds: readonly string[]): Promise<Actor[]> => createAccountsRepository(db).findActors(userIds),

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
