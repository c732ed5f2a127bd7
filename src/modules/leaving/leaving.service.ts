import type { RequestActor } from '#src/domain/visibility.ts';
import { appError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { PasswordsService } from '#src/modules/auth/passwords.service.ts';
import type { SessionsService } from '#src/modules/auth/sessions.service.ts';
import type { ErasureService } from '#src/modules/erasure/erasure.service.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { MembersService } from '#src/modules/members/members.service.ts';
import type { AccessChangesService } from '#src/modules/organization/access-changes.service.ts';
import type { Db } from '#src/ports/database.ts';
import { createLeavingRepository } from './leaving.repository.ts';

export type LeavingService = ReturnType<typeof createLeavingService>;

/**
 * How members and organizations go. Their sessions end and their keys are nobody's at once; a run stops what works for
 * them, and erases what they leave behind when it is time.
 */
export function createLeavingService(deps: {
  passwords: Pick<PasswordsService, 'confirmOwner' | 'hold'>;
  members: Pick<MembersService, 'get' | 'requireAnotherAdmin'>;
  sessions: Pick<SessionsService, 'endAll'>;
  accessChanges: Pick<AccessChangesService, 'change' | 'administer'>;
  erasure: Pick<ErasureService, 'enqueue'>;
  jobs: Pick<JobsService, 'dispatch'>;
  audit: AuditService;
  eraseAfterDays: number;
}) {
  const { passwords, members, sessions, accessChanges, erasure, jobs, audit, eraseAfterDays } = deps;

  /** @returns the job to dispatch after the commit */
  async function endAccount(trx: Db, actor: RequestActor, userId: string, action: string): Promise<string> {
    const { orgId, userId: actorId, requestId } = actor;
    const dueAt = await createLeavingRepository(trx).endAccounts([userId], eraseAfterDays);
    await sessions.endAll(trx, [userId]);
    await audit.record(trx, { orgId, actorId, action, target: userId, requestId });
    return erasure.enqueue(trx, { orgId, userId }, { dueAt, createdBy: userId, requestId });
  }

  /** @returns the job to dispatch after the commit */
  async function endOrganization(trx: Db, actor: RequestActor, userIds: readonly string[]): Promise<string> {
    const { orgId, userId, requestId } = actor;
    const leaving = createLeavingRepository(trx);
    const dueAt = await leaving.endAccounts(userIds, eraseAfterDays);
    await leaving.endOrganization(orgId, eraseAfterDays);
    await sessions.endAll(trx, userIds);
    const detail = { members: userIds.length };
    const entry = { orgId, actorId: userId, action: 'organization.deleted', target: orgId, detail, requestId };
    await audit.record(trx, entry);
    return erasure.enqueue(trx, { orgId, userId: null }, { dueAt, createdBy: userId, requestId });
  }

  return {
    /** For org admins, and not for themselves. Throws `member_not_found`, `last_org_admin`, `forbidden`. */
    async removeMember(actor: RequestActor, userId: string): Promise<void> {
      const { orgId } = actor;
      const jobId = await accessChanges.administer(actor, async (trx) => {
        const { isOrgAdmin } = await members.get(trx, orgId, userId);
        if (isOrgAdmin) await members.requireAnotherAdmin(trx, orgId, userId);
        if (userId === actor.userId) {
          throw appError('forbidden', { detail: 'Delete your own account by DELETE /auth/account.' });
        }
        return endAccount(trx, actor, userId, 'member.removed');
      });
      await jobs.dispatch(jobId);
    },

    /**
     * The caller's own. Who is alone in his organization deletes it, too. Throws `validation_failed`, `wrong_password`,
     * `last_org_admin`.
     */
    async deleteAccount(actor: RequestActor, password: string | undefined): Promise<void> {
      const { orgId, userId } = actor;
      const confirmed = await passwords.confirmOwner(actor, password);
      const jobId = await accessChanges.change(actor, async (trx, caller) => {
        await passwords.hold(trx, actor, confirmed);
        const all = await createLeavingRepository(trx).listMembers(orgId);
        if (all.length === 1) return endOrganization(trx, actor, all);
        if (caller.isOrgAdmin) await members.requireAnotherAdmin(trx, orgId, userId);
        return endAccount(trx, actor, userId, 'account.deleted');
      });
      await jobs.dispatch(jobId);
    },

    /** The caller's, with the accounts of all its members. */
    async deleteOrganization(actor: RequestActor): Promise<void> {
      const jobId = await accessChanges.administer(actor, async (trx) => {
        const all = await createLeavingRepository(trx).listMembers(actor.orgId);
        return endOrganization(trx, actor, all);
      });
      await jobs.dispatch(jobId);
    },
  };
}
