import type { Knex } from 'knex';
import { can } from '#src/domain/access/policy.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { SessionsService } from '#src/modules/auth/sessions.service.ts';
import type { AccessChangesService } from '#src/modules/organization/access-changes.service.ts';
import type { PasswordHasher } from '#src/ports/identity.ts';
import type { Member, UserChange } from './members.model.ts';
import { createMembersRepository } from './members.repository.ts';
import type { MembersService } from './members.service.ts';

/** Changes of accounts by the admins who manage them. */
export function createUsersService(deps: {
  db: Knex;
  members: Pick<MembersService, 'requireAnotherAdmin'>;
  passwords: Pick<PasswordHasher, 'hash'>;
  sessions: Pick<SessionsService, 'endAll'>;
  accessChanges: Pick<AccessChangesService, 'change'>;
  audit: AuditService;
  /** Ends the delay that failed sign-ins with this email have caused. */
  forgetFailedSignIns: (email: string) => Promise<void>;
}) {
  const { db, members, passwords, sessions, accessChanges, audit, forgetFailedSignIns } = deps;

  async function getManaged(trx: Knex, actor: RequestActor, userId: string): Promise<Member> {
    const user = await createMembersRepository(trx).find(actor.orgId, userId);
    if (user === undefined) throw appError('user_not_found');
    if (!can(actor, 'user:manage', user)) {
      throw appError('forbidden', { detail: 'Only an admin of the organization or of all teams of the user may.' });
    }
    return user;
  }

  async function record(
    trx: Knex,
    actor: RequestActor,
    entry: { action: string; target: string; detail?: Record<string, boolean> },
  ): Promise<void> {
    await audit.record(trx, { ...entry, orgId: actor.orgId, actorId: actor.userId, requestId: actor.requestId });
  }

  /** Call it in a change of the user's organization. Disabling ends all sessions. */
  async function setDisabled(trx: Knex, userId: string, isDisabled: boolean): Promise<void> {
    await createMembersRepository(trx).setDisabled(userId, isDisabled);
    if (isDisabled) await sessions.endAll(trx, [userId]);
  }

  return {
    setDisabled,

    /** Throws `user_not_found`, `forbidden`, `email_taken`. */
    async update(actor: RequestActor, userId: string, change: UserChange): Promise<Member> {
      return accessChanges.change(actor, async (trx, caller) => {
        const user = await getManaged(trx, caller, userId);
        const { email = user.email, displayName = user.displayName } = change;
        const detail = { email_changed: email !== user.email, display_name_changed: displayName !== user.displayName };
        if (!detail.email_changed && !detail.display_name_changed) return user;
        if (!(await createMembersRepository(trx).update(userId, { email, displayName }))) throw appError('email_taken');
        await record(trx, actor, { action: 'user.changed', target: userId, detail });
        return { ...user, email, displayName };
      });
    },

    /** Users cannot disable themselves. Throws `user_not_found`, `forbidden`, `last_org_admin`. */
    async disable(actor: RequestActor, userId: string): Promise<void> {
      await accessChanges.change(actor, async (trx, caller) => {
        const user = await getManaged(trx, caller, userId);
        if (user.isDisabled) return;
        if (user.isOrgAdmin) await members.requireAnotherAdmin(trx, actor.orgId, userId);
        if (userId === actor.userId) throw appError('forbidden', { detail: 'Another admin has to disable you.' });
        await setDisabled(trx, userId, true);
        await record(trx, actor, { action: 'user.disabled', target: userId });
      });
    },

    /** Throws `user_not_found`, `forbidden`. */
    async enable(actor: RequestActor, userId: string): Promise<void> {
      await accessChanges.change(actor, async (trx, caller) => {
        const user = await getManaged(trx, caller, userId);
        if (!user.isDisabled) return;
        await setDisabled(trx, userId, false);
        await record(trx, actor, { action: 'user.enabled', target: userId });
      });
    },

    /**
     * Sets the password of another user, and ends that user's sessions and the delay of their sign-in. Throws
     * `user_not_found`, `forbidden`.
     */
    async resetPassword(actor: RequestActor, userId: string, newPassword: string): Promise<void> {
      if (userId === actor.userId) {
        throw appError('forbidden', { detail: 'Change your own password by POST /auth/change-password.' });
      }
      // Checked before the slow hashing, and again in the transaction, which holds the rights.
      const { email } = await getManaged(db, actor, userId);
      const passwordHash = await passwords.hash(newPassword, actor.orgId);
      await accessChanges.change(actor, async (trx, caller) => {
        await getManaged(trx, caller, userId);
        await createMembersRepository(trx).setPassword(userId, passwordHash);
        await sessions.endAll(trx, [userId]);
        await record(trx, actor, { action: 'user.password_reset', target: userId });
      });
      await forgetFailedSignIns(email);
    },
  };
}

export type UsersService = ReturnType<typeof createUsersService>;
