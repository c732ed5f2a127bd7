import type { Knex } from 'knex';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { appError, type ErrorCode, fieldError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { PasswordHasher } from '#src/ports/identity.ts';
import { createAccountsRepository } from './accounts.repository.ts';
import type { Account } from './auth.model.ts';
import type { SessionsService } from './sessions.service.ts';

export type PasswordsService = ReturnType<typeof createPasswordsService>;

export function createPasswordsService(deps: {
  db: Knex;
  passwords: PasswordHasher;
  sessions: Pick<SessionsService, 'endAll'>;
  audit: AuditService;
}) {
  const { db, passwords, sessions, audit } = deps;

  async function getAccount(actor: RequestActor): Promise<Account> {
    const account = await createAccountsRepository(db).findById(actor.userId);
    if (account === undefined) throw appError('invalid_token', { detail: 'The account was deleted.' });
    return account;
  }

  async function record(trx: Knex, actor: RequestActor, action: string, reason?: ErrorCode): Promise<void> {
    const { userId, orgId, requestId } = actor;
    const detail = reason === undefined ? {} : { detail: { reason } };
    await audit.record(trx, { orgId, actorId: userId, action, target: userId, ...detail, requestId });
  }

  /** Returns the stored hash if the password matches. Throws `wrong_password`, also for an account without one. */
  async function confirm(actor: RequestActor, password: string): Promise<string> {
    const { passwordHash } = await getAccount(actor);
    if (passwordHash === null) throw appError('wrong_password', { detail: 'The account has no password yet.' });
    if (await passwords.verify(passwordHash, password, actor.orgId)) return passwordHash;
    await record(db, actor, 'password.refused', 'wrong_password');
    throw appError('wrong_password');
  }

  return {
    confirm,

    /**
     * Checks the password of the account; an account without one needs none. Throws `validation_failed`,
     * `wrong_password`.
     * @returns the confirmed hash for {@link lock}; null for an account without a password
     */
    async confirmOwner(actor: RequestActor, password: string | undefined): Promise<string | null> {
      if (password !== undefined) return confirm(actor, password);
      if ((await getAccount(actor)).passwordHash === null) return null;
      throw fieldError('password', 'is required: the account has one', 'password_required');
    },

    /** Locks the user until the transaction ends. Throws `wrong_password` if the confirmed password has changed. */
    async lock(trx: Knex, actor: RequestActor, confirmed: string | null): Promise<void> {
      if (await createAccountsRepository(trx).lockPassword(actor.userId, confirmed, 'update')) return;
      throw appError('wrong_password', { detail: 'The password was changed by another request. Send the new one.' });
    },

    /**
     * Changes the password and ends all other sessions. The session of the request only loses its refresh tokens: its
     * access token works until it expires. Throws `wrong_password`.
     */
    async change(actor: RequestActor, sessionId: string, input: { current: string; next: string }): Promise<void> {
      const confirmed = await confirm(actor, input.current);
      const passwordHash = await passwords.hash(input.next, actor.orgId);
      await db.transaction(async (trx) => {
        if (!(await createAccountsRepository(trx).replacePassword(actor.userId, confirmed, passwordHash))) {
          throw appError('wrong_password', {
            detail: 'The password was changed by another request. Send the new one.',
          });
        }
        await sessions.endAll(trx, [actor.userId], { except: sessionId });
        await record(trx, actor, 'password.changed');
      });
    },

    async set(actor: RequestActor, password: string): Promise<void> {
      const alreadySet = () =>
        appError('password_already_set', { detail: 'Change the password with POST /auth/change-password.' });
      if ((await getAccount(actor)).passwordHash !== null) throw alreadySet();
      const passwordHash = await passwords.hash(password, actor.orgId);
      await db.transaction(async (trx) => {
        if (!(await createAccountsRepository(trx).replacePassword(actor.userId, null, passwordHash)))
          throw alreadySet();
        await record(trx, actor, 'password.set');
      });
    },
  };
}
