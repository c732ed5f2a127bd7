import type { Knex } from 'knex';
import type { Tier } from '#src/domain/access/limits.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { FoldersService } from '#src/modules/folders/folders.service.ts';
import type { AccessChangesService } from './access-changes.service.ts';
import type { Organization } from './organization.model.ts';
import { createOrganizationRepository } from './organization.repository.ts';

export function createOrganizationService(deps: {
  db: Knex;
  folders: Pick<FoldersService, 'renameOrganizationRoot'>;
  accessChanges: Pick<AccessChangesService, 'administer'>;
  audit: AuditService;
}) {
  const { db, folders, accessChanges, audit } = deps;

  return {
    async get(orgId: string): Promise<Organization> {
      return createOrganizationRepository(db).get(orgId);
    },

    /** Throws `not_found`. @returns the tier that it had */
    async setTier(trx: Knex, orgId: string, tier: Tier): Promise<Tier> {
      const organizations = createOrganizationRepository(trx);
      const before = await organizations.lockTier(orgId);
      if (before === undefined) throw appError('not_found', { detail: `There is no organization ${orgId}.` });
      if (before !== tier) await organizations.setTier(orgId, tier);
      return before;
    },

    async rename(actor: RequestActor, name: string): Promise<Organization> {
      const { orgId, userId, requestId } = actor;
      return accessChanges.administer(actor, async (trx) => {
        const organization = await createOrganizationRepository(trx).rename(orgId, name);
        await folders.renameOrganizationRoot(trx, orgId, name);
        await audit.record(trx, { orgId, actorId: userId, action: 'organization.renamed', target: orgId, requestId });
        return organization;
      });
    },
  };
}

export type OrganizationService = ReturnType<typeof createOrganizationService>;
