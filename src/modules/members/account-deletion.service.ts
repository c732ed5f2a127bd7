import type { Knex } from 'knex';
import { erasureWorkflowId } from '#src/contracts/workflow-ids.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { PasswordsService } from '#src/modules/auth/passwords.service.ts';
import type { SessionsService } from '#src/modules/auth/sessions.service.ts';
import type { ErasureService } from '#src/modules/erasure/erasure.service.ts';
import type { Job, JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { OperatorIdentity } from '#src/modules/operator/operator.service.ts';
import type { AccessRightsChangesService } from '#src/modules/organization/organization.service.ts';
import {
  createAccountDeletionRepository,
  createMembersRepository,
  type DeletedOrganization,
} from './members.repository.ts';
import type { MembersService } from './members.service.ts';

export type AccountDeletionService = ReturnType<typeof createAccountDeletionService>;

/**
 * Deletes accounts and organizations. Sessions and access rights end immediately. The workflow `eraseContent` stops
 * open runs, and erases the data after the grace period.
 */
export function createAccountDeletionService(deps: {
  db: Knex;
  passwords: Pick<PasswordsService, 'confirmOwner' | 'lock'>;
  members: Pick<MembersService, 'get' | 'requireAnotherAdmin'>;
  sessions: Pick<SessionsService, 'endAll'>;
  accessChanges: Pick<AccessRightsChangesService, 'change' | 'administer' | 'operate'>;
  erasure: Pick<ErasureService, 'enqueue'>;
  jobs: Pick<JobsService, 'dispatch' | 'find'>;
  audit: AuditService;
  eraseAfterDays: number;
}) {
  const { db, passwords, members, sessions, accessChanges, erasure, jobs, audit, eraseAfterDays } = deps;

  async function deleteAccount(trx: Knex, actor: RequestActor, userId: string, action: string): Promise<string> {
    const { orgId, userId: actorId, requestId } = actor;
    const dueAt = await createAccountDeletionRepository(trx).deleteAccounts([userId], eraseAfterDays);
    await sessions.endAll(trx, [userId]);
    await audit.record(trx, { orgId, actorId, action, target: userId, requestId });
    return erasure.enqueue(trx, { orgId, userId }, { dueAt, createdBy: userId, requestId });
  }

  async function deleteOrganization(
    trx: Knex,
    by: { orgId: string; userId: string | null; operator?: string; requestId: string },
    userIds: readonly string[],
    afterDays = eraseAfterDays,
  ): Promise<string> {
    const { orgId, userId, operator, requestId } = by;
    const repository = createAccountDeletionRepository(trx);
    const dueAt = await repository.deleteAccounts(userIds, afterDays);
    await repository.deleteOrganization(orgId, afterDays);
    await sessions.endAll(trx, userIds);
    const detail = { members: userIds.length, ...(operator !== undefined && { operator }) };
    const entry = { orgId, actorId: userId, action: 'organization.deleted', target: orgId, detail, requestId };
    await audit.record(trx, entry);
    const createdBy = userId ?? String(userIds[0]);
    return erasure.enqueue(trx, { orgId, userId: null }, { dueAt, createdBy, requestId });
  }

  /** Makes the erasure of a deleted organization due now. Returns the job to dispatch; null if it was already due. */
  async function eraseNow(trx: Knex, operator: OperatorIdentity, orgId: string): Promise<string | null> {
    const waiting = await createAccountDeletionRepository(trx).makeErasureDue(orgId);
    if (waiting === undefined) return null;
    const { name, requestId } = operator;
    const entry = { orgId, actorId: null, action: 'organization.erasure_hurried', target: orgId, requestId };
    await audit.record(trx, { ...entry, detail: { operator: name } });
    return erasure.enqueue(trx, { orgId, userId: null }, { ...waiting, requestId });
  }

  return {
    async removeMember(actor: RequestActor, userId: string): Promise<void> {
      const { orgId } = actor;
      const jobId = await accessChanges.administer(actor, async (trx) => {
        const { isOrgAdmin } = await members.get(trx, orgId, userId);
        if (isOrgAdmin) await members.requireAnotherAdmin(trx, orgId, userId);
        if (userId === actor.userId) {
          throw appError('forbidden', { detail: 'Delete your own account with DELETE /auth/account.' });
        }
        return deleteAccount(trx, actor, userId, 'member.removed');
      });
      await jobs.dispatch(jobId);
    },

    /** Ends an API key with the user as whom it acts. `find` throws if the organization has no such key. */
    async revokeApiKey(actor: RequestActor, find: (trx: Knex) => Promise<{ id: string }>): Promise<void> {
      const jobId = await accessChanges.administer(actor, async (trx) => {
        const { id } = await find(trx);
        return deleteAccount(trx, actor, id, 'api_key.revoked');
      });
      await jobs.dispatch(jobId);
    },

    async deleteAccount(actor: RequestActor, password: string | undefined): Promise<void> {
      const { orgId, userId } = actor;
      const confirmed = await passwords.confirmOwner(actor, password);
      const jobId = await accessChanges.change(actor, async (trx, caller) => {
        await passwords.lock(trx, actor, confirmed);
        const repository = createMembersRepository(trx);
        if ((await repository.count(orgId)) === 1) {
          return deleteOrganization(trx, actor, await repository.listUserIds(orgId));
        }
        if (caller.isOrgAdmin) await members.requireAnotherAdmin(trx, orgId, userId);
        return deleteAccount(trx, actor, userId, 'account.deleted');
      });
      await jobs.dispatch(jobId);
    },

    /**
     * Erases an organization for an operator. `isNow` skips the grace period (`ERASE_AFTER_DAYS`), also if the
     * organization was deleted before. Returns false if there was nothing to do. Throws `not_found`.
     */
    async eraseOrganization(
      operator: OperatorIdentity,
      orgId: string,
      { isNow }: { isNow: boolean },
    ): Promise<boolean> {
      const found = await createAccountDeletionRepository(db).findOrganization(orgId);
      if (found === undefined) throw appError('not_found', { detail: `There is no organization ${orgId}.` });
      const by = { orgId, userId: null, operator: operator.name, requestId: operator.requestId };
      const jobId =
        found.deletedAt === null
          ? await accessChanges.operate(orgId, async (trx) => {
              const all = await createMembersRepository(trx).listUserIds(orgId);
              return deleteOrganization(trx, by, all, isNow ? 0 : eraseAfterDays);
            })
          : isNow && (await db.transaction((trx) => eraseNow(trx, operator, orgId)));
      if (typeof jobId === 'string') await jobs.dispatch(jobId);
      return typeof jobId === 'string';
    },

    /**
     * Returns an organization with the job of its erasure, which is null before the erasure starts and after it ends.
     */
    async erasureOf(orgId: string): Promise<{ organization: DeletedOrganization; job: Job | null }> {
      const organization = await createAccountDeletionRepository(db).findOrganization(orgId);
      if (organization === undefined) throw appError('not_found', { detail: `There is no organization ${orgId}.` });
      return { organization, job: (await jobs.find(erasureWorkflowId(orgId))) ?? null };
    },

    async deleteOrganization(actor: RequestActor): Promise<void> {
      const jobId = await accessChanges.administer(actor, async (trx) => {
        const all = await createMembersRepository(trx).listUserIds(actor.orgId);
        return deleteOrganization(trx, actor, all);
      });
      await jobs.dispatch(jobId);
    },
  };
}
