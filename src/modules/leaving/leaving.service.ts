import type { Knex } from 'knex';
import { erasureWorkflowId } from '#src/contracts/workflow-ids.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { PasswordsService } from '#src/modules/auth/passwords.service.ts';
import type { SessionsService } from '#src/modules/auth/sessions.service.ts';
import type { ErasureService } from '#src/modules/erasure/erasure.service.ts';
import type { Job, JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { MembersService } from '#src/modules/members/members.service.ts';
import type { Operator } from '#src/modules/operator/operator.service.ts';
import type { AccessChangesService } from '#src/modules/organization/access-changes.service.ts';
import { createLeavingRepository, type LeavingOrganization } from './leaving.repository.ts';

export type LeavingService = ReturnType<typeof createLeavingService>;

/**
 * How members and organizations go. Their sessions end and their keys are nobody's at once; a run stops what works for
 * them, and erases what they leave behind when it is time.
 */
export function createLeavingService(deps: {
  db: Knex;
  passwords: Pick<PasswordsService, 'confirmOwner' | 'hold'>;
  members: Pick<MembersService, 'get' | 'requireAnotherAdmin'>;
  sessions: Pick<SessionsService, 'endAll'>;
  accessChanges: Pick<AccessChangesService, 'change' | 'administer' | 'operate'>;
  erasure: Pick<ErasureService, 'enqueue'>;
  jobs: Pick<JobsService, 'dispatch' | 'find'>;
  audit: AuditService;
  eraseAfterDays: number;
}) {
  const { db, passwords, members, sessions, accessChanges, erasure, jobs, audit, eraseAfterDays } = deps;

  /** @returns the job to dispatch after the commit */
  async function endAccount(trx: Knex, actor: RequestActor, userId: string, action: string): Promise<string> {
    const { orgId, userId: actorId, requestId } = actor;
    const dueAt = await createLeavingRepository(trx).endAccounts([userId], eraseAfterDays);
    await sessions.endAll(trx, [userId]);
    await audit.record(trx, { orgId, actorId, action, target: userId, requestId });
    return erasure.enqueue(trx, { orgId, userId }, { dueAt, createdBy: userId, requestId });
  }

  /**
   * @param by who decides it: one of its admins, or the operator, who is known by a name
   * @returns the job to dispatch after the commit
   */
  async function endOrganization(
    trx: Knex,
    by: { orgId: string; userId: string | null; operator?: string; requestId: string },
    userIds: readonly string[],
    afterDays = eraseAfterDays,
  ): Promise<string> {
    const { orgId, userId, operator, requestId } = by;
    const leaving = createLeavingRepository(trx);
    const dueAt = await leaving.endAccounts(userIds, afterDays);
    await leaving.endOrganization(orgId, afterDays);
    await sessions.endAll(trx, userIds);
    const detail = { members: userIds.length, ...(operator !== undefined && { operator }) };
    const entry = { orgId, actorId: userId, action: 'organization.deleted', target: orgId, detail, requestId };
    await audit.record(trx, entry);
    const createdBy = userId ?? String(userIds[0]);
    return erasure.enqueue(trx, { orgId, userId: null }, { dueAt, createdBy, requestId });
  }

  /** Of an organization that was deleted before: what waits for its day begins. @returns as `endOrganization` */
  async function hurry(trx: Knex, operator: Operator, orgId: string): Promise<string | null> {
    const waiting = await createLeavingRepository(trx).hurryOrganization(orgId);
    if (waiting === undefined) return null;
    const { name, requestId } = operator;
    const entry = { orgId, actorId: null, action: 'organization.erasure_hurried', target: orgId, requestId };
    await audit.record(trx, { ...entry, detail: { operator: name } });
    return erasure.enqueue(trx, { orgId, userId: null }, { ...waiting, requestId });
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

    /**
     * Any, by the operator, with the accounts of all its members; `isNow` without the days, also of one that was deleted
     * before. Throws `not_found`. @returns false where nothing was left to do
     */
    async eraseOrganization(operator: Operator, orgId: string, { isNow }: { isNow: boolean }): Promise<boolean> {
      const found = await createLeavingRepository(db).findOrganization(orgId);
      if (found === undefined) throw appError('not_found', { detail: `There is no organization ${orgId}.` });
      const by = { orgId, userId: null, operator: operator.name, requestId: operator.requestId };
      const jobId =
        found.deletedAt === null
          ? await accessChanges.operate(orgId, async (trx) => {
              const all = await createLeavingRepository(trx).listMembers(orgId);
              return endOrganization(trx, by, all, isNow ? 0 : eraseAfterDays);
            })
          : isNow && (await db.transaction((trx) => hurry(trx, operator, orgId)));
      if (typeof jobId === 'string') await jobs.dispatch(jobId);
      return typeof jobId === 'string';
    },

    /** How far that is. `job` is null before it begins, and once it is done. Throws `not_found`. */
    async erasureOf(orgId: string): Promise<{ organization: LeavingOrganization; job: Job | null }> {
      const organization = await createLeavingRepository(db).findOrganization(orgId);
      if (organization === undefined) throw appError('not_found', { detail: `There is no organization ${orgId}.` });
      return { organization, job: (await jobs.find(erasureWorkflowId(orgId))) ?? null };
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
