import type { RequestActor } from '#src/domain/visibility.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { FoldersService } from '#src/modules/folders/folders.service.ts';
import type { Db } from '#src/ports/database.ts';
import type { AccessChangesService } from './access-changes.service.ts';
import type { Organization } from './organization.model.ts';
import { createOrganizationRepository } from './organization.repository.ts';

export function createOrganizationService(deps: {
  db: Db;
  folders: Pick<FoldersService, 'renameOrganizationRoot'>;
  accessChanges: Pick<AccessChangesService, 'administer'>;
  audit: AuditService;
}) {
  const { db, folders, accessChanges, audit } = deps;

  return {
    async get(orgId: string): Promise<Organization> {
      return createOrganizationRepository(db).get(orgId);
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
