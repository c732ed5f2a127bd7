import type { Knex } from 'knex';
import type { OrganizationTier } from '#src/domain/access/limits.ts';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { AccountsService } from '#src/modules/auth/accounts.service.ts';
import type { FoldersService } from '#src/modules/folders/folders.service.ts';
import type { Organization, OrganizationChange } from './organization.model.ts';
import { createOrganizationRepository } from './organization.repository.ts';
import type { RemainingTierQuota, TierLimitsService } from './tier-limits.service.ts';

export function createOrganizationService(deps: {
  db: Knex;
  folders: Pick<FoldersService, 'renameOrganizationRoot'>;
  accessChanges: Pick<AccessRightsChangesService, 'administer'>;
  audit: AuditService;
}) {
  const { db, folders, accessChanges, audit } = deps;

  return {
    async get(orgId: string): Promise<Organization> {
      return createOrganizationRepository(db).get(orgId);
    },

    async setTier(trx: Knex, orgId: string, tier: OrganizationTier): Promise<OrganizationTier> {
      const organizations = createOrganizationRepository(trx);
      const before = await organizations.lockTier(orgId);
      if (before === undefined) throw appError('not_found', { detail: `There is no organization ${orgId}.` });
      if (before !== tier) await organizations.setTier(orgId, tier);
      return before;
    },

    /** Changes the organization. A new name becomes the name of its root folder too. */
    async change(actor: RequestActor, change: OrganizationChange): Promise<Organization> {
      const { orgId, userId, requestId } = actor;
      const { name, teamAdminsContribute } = change;
      const entry = { orgId, actorId: userId, target: orgId, requestId };
      return accessChanges.administer(actor, async (trx) => {
        const organization = await createOrganizationRepository(trx).change(orgId, change);
        if (name !== undefined) {
          await folders.renameOrganizationRoot(trx, orgId, name);
          await audit.record(trx, { ...entry, action: 'organization.renamed' });
        }
        if (teamAdminsContribute !== undefined) {
          const detail = { team_admins_contribute: teamAdminsContribute };
          await audit.record(trx, { ...entry, action: 'organization.settings_changed', detail });
        }
        return organization;
      });
    },
  };
}

export type OrganizationService = ReturnType<typeof createOrganizationService>;

/**
 * Work of a change of access rights, which runs in a transaction that locks the organization. `caller` has the caller's
 * rights at the time of the lock, which other changes may have reduced.
 */
type Change<Result> = (trx: Knex, caller: RequestActor, quota: RemainingTierQuota) => Promise<Result>;

export function createAccessRightsChangesService(deps: {
  accounts: Pick<AccountsService, 'findActor'>;
  limits: Pick<TierLimitsService, 'transaction' | 'lock'>;
}) {
  const listeners: ((orgId: string) => void)[] = [];

  /**
   * Runs a change in a transaction that locks the organization, then invalidates this process's cache of access rights;
   * other processes reload theirs within seconds. Throws `invalid_token` if the caller's account was deleted meanwhile.
   */
  async function change<Result>(
    { orgId, userId, requestId }: Pick<RequestActor, 'orgId' | 'userId' | 'requestId'>,
    work: Change<Result>,
  ): Promise<Result> {
    return operate(orgId, async (trx, quota) => {
      const caller = await deps.accounts.findActor(trx, userId);
      if (caller === undefined) throw appError('invalid_token', { detail: 'The account was deleted.' });
      return work(trx, { ...caller, requestId }, quota);
    });
  }

  /** Runs a change that an operator makes, without a caller who is a member of the organization. */
  async function operate<Result>(
    orgId: string,
    work: (trx: Knex, quota: RemainingTierQuota) => Promise<Result>,
  ): Promise<Result> {
    const result = await deps.limits.transaction(orgId, async (trx) => work(trx, await deps.limits.lock(trx, orgId)));
    for (const listener of listeners) listener(orgId);
    return result;
  }

  return {
    change,

    operate,

    administer<Result>(
      actor: Pick<RequestActor, 'orgId' | 'userId' | 'requestId'>,
      work: Change<Result>,
    ): Promise<Result> {
      return change(actor, (trx, caller, quota) => {
        if (mayPerformAction(caller, 'organization:administer', caller)) return work(trx, caller, quota);
        throw appError('forbidden', { detail: 'Only an admin of the organization may do this.' });
      });
    },

    /**
     * Registers a listener for changes of access rights by this process; it is not called for changes by other
     * processes.
     */
    listen(listener: (orgId: string) => void): void {
      listeners.push(listener);
    },
  };
}

export type AccessRightsChangesService = ReturnType<typeof createAccessRightsChangesService>;
