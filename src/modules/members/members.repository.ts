import type { Knex } from 'knex';
import { isUniqueViolation } from '#src/adapters/postgres/errors.ts';
import {
  booleanColumn,
  defineRowShape,
  jsonColumn,
  pickColumns,
  queryFirstRow,
  queryRows,
  type SqlRow,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import { ApiKeyModel } from '#src/modules/api-keys/api-keys.model.ts';
import { MembershipModel, UserIdentityModel, UserModel } from '#src/modules/auth/auth.model.ts';
import { JobModel } from '#src/modules/jobs/jobs.model.ts';
import { OrganizationModel } from '#src/modules/organization/organization.model.ts';
import { TeamMembershipModel } from '#src/modules/teams/teams.model.ts';

export type TeamOfMember = { teamId: string; isTeamAdmin: boolean; isEntrusted: boolean };

const member = defineRowShape({
  userId: uuidColumn(),
  orgId: uuidColumn(),
  email: textColumn(),
  firstName: textColumn().nullable(),
  lastName: textColumn().nullable(),
  displayName: textColumn(),
  isOrgAdmin: booleanColumn(),
  isDisabled: booleanColumn(),
  addedBy: uuidColumn().nullable(),
  addedAt: timestampColumn(),
  createdAt: timestampColumn(),
  teams: jsonColumn<TeamOfMember[]>(),
});

export type Member = SqlRow<typeof member>;

const memberColumns = `
  u.id as user_id, u.email, u.first_name, u.last_name, u.display_name, u.disabled_at is not null as is_disabled,
  u.created_at, m.org_id, m.is_org_admin, m.added_by, m.added_at,
  coalesce((
    select jsonb_agg(
      jsonb_build_object('teamId', t.id, 'isTeamAdmin', tm.is_team_admin, 'isEntrusted', tm.is_entrusted)
      order by tm.added_at, t.id)
    from team_memberships tm join teams t on t.id = tm.team_id
    where tm.user_id = u.id and t.disabled_at is null), '[]') as teams`;

export function createMembersRepository(db: Knex) {
  const users = (orgId: string) =>
    MembershipModel.query(db)
      .alias('m')
      .join('users as u', 'u.id', 'm.userId')
      .where('m.orgId', orgId)
      .whereNull('u.deletedAt');
  const members = (orgId: string) => users(orgId).where('u.isApiKey', false);

  const user = (userId: string) => UserModel.query(db).where({ id: userId });
  const updatedAt = db.fn.now();

  return {
    async list(orgId: string): Promise<Member[]> {
      return queryRows(db, member, members(orgId).orderBy(['m.addedAt', 'u.id']).select(db.raw(memberColumns)));
    },

    /** Returns the ids of the members and of the users as whom API keys act. */
    async listUserIds(orgId: string): Promise<string[]> {
      return (await queryRows(db, pickColumns(UserModel, 'id'), users(orgId).select('u.id'))).map(({ id }) => id);
    },

    async find(orgId: string, userId: string): Promise<Member | undefined> {
      return queryFirstRow(db, member, members(orgId).where('u.id', userId).select(db.raw(memberColumns)));
    },

    async wasCreated(userId: string): Promise<boolean> {
      return (await UserModel.query(db).findById(userId).select('id')) !== undefined;
    },

    count: (orgId: string): Promise<number> => members(orgId).resultSize(),

    countOtherAdmins: (orgId: string, userId: string): Promise<number> =>
      members(orgId).where('m.isOrgAdmin', true).whereNull('u.disabledAt').whereNot('u.id', userId).resultSize(),

    async setOrgAdmin(orgId: string, userId: string, isOrgAdmin: boolean): Promise<void> {
      await MembershipModel.query(db).where({ orgId, userId }).patch({ isOrgAdmin });
    },

    /** @returns false if another user has the email; the caller must then roll the transaction back */
    async update(userId: string, change: { email: string; displayName: string }): Promise<boolean> {
      try {
        await user(userId).patch({ ...change, updatedAt });
        return true;
      } catch (error) {
        if (isUniqueViolation(error, 'users_email_key')) return false;
        throw error;
      }
    },

    async setDisabled(userId: string, isDisabled: boolean): Promise<void> {
      await user(userId).patch({ disabledAt: isDisabled ? db.fn.now() : null, updatedAt });
    },

    async setPassword(userId: string, passwordHash: string): Promise<void> {
      await user(userId).patch({ passwordHash, updatedAt });
    },
  };
}

const due = defineRowShape({ eraseDueAt: timestampColumn() });

export type DeletedOrganization = Pick<SqlRow<typeof OrganizationModel>, 'name' | 'deletedAt' | 'eraseDueAt'>;

export function createAccountDeletionRepository(db: Knex) {
  const deletion = (eraseAfterDays: number) => ({
    deletedAt: db.fn.now(),
    eraseDueAt: db.raw('now() + make_interval(days => ?)', [eraseAfterDays]),
    updatedAt: db.fn.now(),
  });

  return {
    /** Marks accounts as deleted and frees their emails. Memberships stay, because the erasure needs them. */
    async deleteAccounts(userIds: readonly string[], eraseAfterDays: number): Promise<Date> {
      const ids = [...userIds];
      await TeamMembershipModel.query(db).whereIn('userId', ids).delete();
      await MembershipModel.query(db).whereIn('userId', ids).patch({ isOrgAdmin: false });
      const marked = UserModel.table(db)
        .whereIn('id', ids)
        .whereNull('deletedAt')
        .update(deletion(eraseAfterDays))
        .returning('eraseDueAt');
      const row = await queryFirstRow(db, due, marked);
      if (row === undefined) throw new Error('none of the users could be marked as deleted');
      // Identities are deleted after the users were updated: linking an identity locks the user's row, so that no
      // request can add an identity in between.
      await UserIdentityModel.query(db).whereIn('userId', ids).delete();
      await ApiKeyModel.query(db).whereIn('userId', ids).delete();
      return row.eraseDueAt;
    },

    async deleteOrganization(orgId: string, eraseAfterDays: number): Promise<void> {
      const count = await OrganizationModel.table(db)
        .where({ id: orgId })
        .whereNull('deletedAt')
        .update(deletion(eraseAfterDays));
      if (count === 0) throw new Error(`organization ${orgId} could not be marked as deleted`);
    },

    async findOrganization(orgId: string): Promise<DeletedOrganization | undefined> {
      return OrganizationModel.table(db).where({ id: orgId }).first('name', 'deletedAt', 'eraseDueAt');
    },

    /** Returns undefined if the erasure of the organization was already due or is done. */
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
      const row = await queryFirstRow(db, due, updated);
      return row && { dueAt: row.eraseDueAt, createdBy: job.createdBy };
    },
  };
}
