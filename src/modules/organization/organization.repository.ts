import type { Knex } from 'knex';
import { withoutUndefinedFields } from '#src/adapters/postgres/base-model.ts';
import type { OrganizationTier } from '#src/domain/access/limits.ts';
import { type Organization, type OrganizationChange, OrganizationModel } from './organization.model.ts';

const columns = ['id', 'name', 'tier', 'teamAdminsContribute'] as const;

export function createOrganizationRepository(db: Knex) {
  const organization = (orgId: string) => OrganizationModel.table(db).where({ id: orgId });

  return {
    async get(orgId: string): Promise<Organization> {
      return found(await organization(orgId).first(...columns), orgId);
    },

    async change(orgId: string, { name, teamAdminsContribute }: OrganizationChange): Promise<Organization> {
      const change = withoutUndefinedFields({ name, teamAdminsContribute });
      const [row] = await organization(orgId)
        .update({ ...change, updatedAt: db.fn.now() })
        .returning(columns);
      return found(row, orgId);
    },

    async setTier(orgId: string, tier: OrganizationTier): Promise<void> {
      await organization(orgId).update({ tier, updatedAt: db.fn.now() });
    },

    async lockTier(orgId: string): Promise<OrganizationTier | undefined> {
      // Locks the organization with `for no key update`, which does not block inserts of rows that refer to it.
      const row = await organization(orgId).whereNull('deletedAt').forNoKeyUpdate().first('tier');
      return row?.tier;
    },
  };
}

function found<Row>(row: Row, orgId: string): NonNullable<Row> {
  if (row === undefined || row === null) throw new Error(`organization ${orgId} does not exist`);
  return row;
}
