import type { Tier } from '#src/domain/tiers.ts';
import type { Db } from '#src/ports/database.ts';

export function createOrganizationRepository(db: Db) {
  const organization = (orgId: string) => db<{ id: string; tier: Tier }>('organizations').where({ id: orgId });

  return {
    async tierOf(orgId: string): Promise<Tier> {
      return tierIn(await organization(orgId).first('tier'), orgId);
    },

    async lockTier(orgId: string): Promise<Tier> {
      // "No key" keeps out other holders of this lock, but not inserts that merely refer to the organization.
      return tierIn(await organization(orgId).forNoKeyUpdate().first('tier'), orgId);
    },
  };
}

function tierIn(row: { tier: Tier } | undefined, orgId: string): Tier {
  if (row === undefined) throw new Error(`no organization ${orgId}`);
  return row.tier;
}
