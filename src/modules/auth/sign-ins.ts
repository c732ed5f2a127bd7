import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { appError, type ErrorCode } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { AccessTokens } from '#src/ports/identity.ts';
import { createAccountsRepository } from './accounts.repository.ts';
import type { AccountsService } from './accounts.service.ts';
import type { Account, NewUser, SignIn, SignInOrigin } from './auth.model.ts';
import type { Session, SessionsService } from './sessions.service.ts';

export type SignIns = ReturnType<typeof createSignIns>;

/** What all ways in have in common. */
export function createSignIns(deps: {
  db: Knex;
  accessTokens: AccessTokens;
  accounts: Pick<AccountsService, 'createOrganization'>;
  sessions: Pick<SessionsService, 'open'>;
  audit: AuditService;
}) {
  const { db, accessTokens, accounts, sessions, audit } = deps;

  /** Throws `account_disabled`. */
  async function issue(trx: Knex, account: Account, session: Session, isNewUser: boolean): Promise<SignIn> {
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
    issue,

    /** Of an account that is there; its user's row is held until the transaction ends. Throws `account_disabled`. */
    async open(trx: Knex, account: Account, { requestId, client }: SignInOrigin): Promise<SignIn> {
      const { userId, orgId } = account;
      const session = await sessions.open(trx, userId, client);
      const entry = { orgId, actorId: userId, target: session.sessionId, requestId };
      await audit.record(trx, { ...entry, action: 'session.opened' });
      return issue(trx, account, session, false);
    },

    /** Of a new user, who founds an organization and is its admin. Throws `email_taken`. */
    async register(
      trx: Knex,
      founder: NewUser,
      orgName: string | undefined,
      { requestId, client }: SignInOrigin,
    ): Promise<SignIn> {
      const { userId, displayName } = founder;
      const orgId = uuidv7();
      await accounts.createOrganization(trx, founder, { orgId, name: orgName ?? `${displayName}'s organization` });
      await audit.record(trx, { orgId, actorId: userId, action: 'account.registered', target: userId, requestId });
      const account = await createAccountsRepository(trx).findById(userId);
      if (account === undefined) throw appError('internal_error');
      return issue(trx, account, await sessions.open(trx, userId, client), true);
    },

    async recordRefusal(account: Account | undefined, reason: ErrorCode, requestId: string): Promise<void> {
      const [orgId, target] = [account?.orgId ?? null, account?.userId ?? null];
      const entry = { orgId, actorId: null, action: 'session.refused', target, requestId };
      await audit.record(db, { ...entry, detail: { reason } });
    },
  };
}
