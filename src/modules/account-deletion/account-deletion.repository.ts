import type { Knex } from 'knex';
import { firstRow, pick, type Row, rows, shape, timestamp } from '#src/adapters/postgres/shapes.ts';
import { MembershipModel, UserIdentityModel, UserModel } from '#src/modules/auth/auth.model.ts';
import { JobModel } from '#src/modules/jobs/jobs.model.ts';
import { OrganizationModel } from '#src/modules/organization/organization.model.ts';
import { TeamMembershipModel } from '#src/modules/teams/teams.model.ts';

const due = shape({ eraseDueAt: timestamp() });

/** `name` is empty after the erasure. */
export type DeletedOrganization = Pick<Row<typeof OrganizationModel>, 'name' | 'deletedAt' | 'eraseDueAt'>;

export function createAccountDeletionRepository(db: Knex) {
  const deleted = (eraseAfterDays: number) => ({
    deletedAt: db.fn.now(),
    eraseDueAt: db.raw('now() + make_interval(days => ?)', [eraseAfterDays]),
    updatedAt: db.fn.now(),
  });

  async function markDeleted(
    table: 'users' | 'organizations',
    ids: readonly string[],
    eraseAfterDays: number,
  ): Promise<Date> {
    const marked = db(table)
      .whereIn('id', [...ids])
      .whereNull('deletedAt')
      .update(deleted(eraseAfterDays))
      .returning('eraseDueAt');
    const row = await firstRow(db, due, marked);
    if (row === undefined) throw new Error(`no row of ${table} was marked as deleted`);
    return row.eraseDueAt;
  }

  return {
    /** Ids of the members of an organization, including disabled ones. */
    async listMembers(orgId: string): Promise<string[]> {
      const members = db('memberships as m')
        .join('users as u', 'u.id', 'm.userId')
        .where('m.orgId', orgId)
        .whereNull('u.deletedAt')
        .select('u.id');
      return (await rows(db, pick(UserModel, 'id'), members)).map(({ id }) => id);
    },

    /**
     * Their email addresses can be registered again. The row of a membership stays, because the erasure needs it.
     * @returns when the erasure of their data is due
     */
    async deleteAccounts(userIds: readonly string[], eraseAfterDays: number): Promise<Date> {
      await TeamMembershipModel.query(db)
        .whereIn('userId', [...userIds])
        .delete();
      await MembershipModel.query(db)
        .whereIn('userId', [...userIds])
        .patch({ isOrgAdmin: false });
      const dueAt = await markDeleted('users', userIds, eraseAfterDays);
      // After the update of users, because linking an identity locks the row of the user.
      await UserIdentityModel.query(db)
        .whereIn('userId', [...userIds])
        .delete();
      return dueAt;
    },

    async findOrganization(orgId: string): Promise<DeletedOrganization | undefined> {
      return OrganizationModel.table(db).where({ id: orgId }).first('name', 'deletedAt', 'eraseDueAt');
    },

    /**
     * Makes the erasure of a deleted organization due now.
     * @returns the new due time and the creator of its job; undefined if it was due already or is done
     */
    async makeErasureDue(orgId: string): Promise<{ dueAt: Date; createdBy: string } | undefined> {
      const job = await JobModel.table(db)
        .where({ id: `erase-${orgId}` })
        .first('createdBy');
      if (job === undefined) return undefined;
      const updated = OrganizationModel.table(db)
        .where({ id: orgId })
        .whereNotNull('deletedAt')
        .where('eraseDueAt', '>', db.fn.now())
        .update({ eraseDueAt: db.fn.now() })
        .returning('eraseDueAt');
      const row = await firstRow(db, due, updated);
      return row && { dueAt: row.eraseDueAt, createdBy: job.createdBy };
    },

    async deleteOrganization(orgId: string, eraseAfterDays: number): Promise<void> {
      await markDeleted('organizations', [orgId], eraseAfterDays);
    },
  };
}
