import type { Knex } from 'knex';
import { type Row, timestamp } from '#src/adapters/postgres/columns.ts';
import { firstRow, pick, rows, shape } from '#src/adapters/postgres/shapes.ts';
import { MembershipModel, UserIdentityModel, UserModel } from '#src/modules/auth/auth.model.ts';
import { JobModel } from '#src/modules/jobs/jobs.model.ts';
import { OrganizationModel } from '#src/modules/organization/organization.model.ts';
import { TeamMembershipModel } from '#src/modules/teams/teams.model.ts';

const due = shape({ eraseDueAt: timestamp() });

/** `name` is empty once it is erased. */
export type LeavingOrganization = Pick<Row<typeof OrganizationModel>, 'name' | 'deletedAt' | 'eraseDueAt'>;

export function createLeavingRepository(db: Knex) {
  const gone = (eraseAfterDays: number) => ({
    deletedAt: db.fn.now(),
    eraseDueAt: db.raw('now() + make_interval(days => ?)', [eraseAfterDays]),
    updatedAt: db.fn.now(),
  });

  async function end(table: 'users' | 'organizations', ids: readonly string[], eraseAfterDays: number): Promise<Date> {
    const ended = db(table)
      .whereIn('id', [...ids])
      .whereNull('deletedAt')
      .update(gone(eraseAfterDays))
      .returning('eraseDueAt');
    const row = await firstRow(db, due, ended);
    if (row === undefined) throw new Error(`nobody of ${table} ended`);
    return row.eraseDueAt;
  }

  return {
    /** Of an organization, disabled ones too. */
    async listMembers(orgId: string): Promise<string[]> {
      const members = db('memberships as m')
        .join('users as u', 'u.id', 'm.userId')
        .where('m.orgId', orgId)
        .whereNull('u.deletedAt')
        .select('u.id');
      return (await rows(db, pick(UserModel, 'id'), members)).map(({ id }) => id);
    },

    /**
     * Their emails are free from then on. The row of a membership stays: it says where the user belonged.
     * @returns when what they leave behind is to be erased
     */
    async endAccounts(userIds: readonly string[], eraseAfterDays: number): Promise<Date> {
      await TeamMembershipModel.query(db)
        .whereIn('userId', [...userIds])
        .delete();
      await MembershipModel.query(db)
        .whereIn('userId', [...userIds])
        .patch({ isOrgAdmin: false });
      const dueAt = await end('users', userIds, eraseAfterDays);
      // Behind the rows of the users: whoever gives one an identity holds that row. And who comes back comes anew.
      await UserIdentityModel.query(db)
        .whereIn('userId', [...userIds])
        .delete();
      return dueAt;
    },

    async findOrganization(orgId: string): Promise<LeavingOrganization | undefined> {
      return OrganizationModel.table(db).where({ id: orgId }).first('name', 'deletedAt', 'eraseDueAt');
    },

    /** @returns when it is due now, and for whom its job is; undefined when it is so already, or done */
    async hurryOrganization(orgId: string): Promise<{ dueAt: Date; createdBy: string } | undefined> {
      const job = await JobModel.table(db)
        .where({ id: `erase-${orgId}` })
        .first('createdBy');
      if (job === undefined) return undefined;
      const hurried = OrganizationModel.table(db)
        .where({ id: orgId })
        .whereNotNull('deletedAt')
        .where('eraseDueAt', '>', db.fn.now())
        .update({ eraseDueAt: db.fn.now() })
        .returning('eraseDueAt');
      const row = await firstRow(db, due, hurried);
      return row && { dueAt: row.eraseDueAt, createdBy: job.createdBy };
    },

    async endOrganization(orgId: string, eraseAfterDays: number): Promise<void> {
      await end('organizations', [orgId], eraseAfterDays);
    },
  };
}
