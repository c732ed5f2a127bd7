import type { Tier, TierLimits } from '#src/domain/tiers.ts';
import type { Db } from '#src/ports/database.ts';
import { createOrganizationRepository } from './organization.repository.ts';

/** The upper bounds of an organization, from its tier and the deployment's table. */
export function createTierLimitsService(deps: { db: Db; tierLimits: Readonly<Record<Tier, TierLimits>> }) {
  return {
    async of(orgId: string): Promise<TierLimits> {
      return deps.tierLimits[await createOrganizationRepository(deps.db).tierOf(orgId)];
    },

    /**
     * The same with the organization's row locked until the end of `trx`. Whoever counts rows against a limit before
     * an insert calls this first, so that two inserts cannot both take the last place.
     */
    async lock(trx: Db, orgId: string): Promise<TierLimits> {
      return deps.tierLimits[await createOrganizationRepository(trx).lockTier(orgId)];
    },
  };
}

export type TierLimitsService = ReturnType<typeof createTierLimitsService>;
