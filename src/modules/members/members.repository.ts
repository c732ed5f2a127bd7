import type { Knex } from 'knex';
import { isUniqueViolation } from '#src/adapters/postgres/errors.ts';
import { firstRow, rows } from '#src/adapters/postgres/shapes.ts';
import { MembershipModel, UserModel } from '#src/modules/auth/auth.model.ts';
import { type Member, member } from './members.model.ts';

const memberColumns = `
  u.id as user_id, u.email, u.first_name, u.last_name, u.display_name, u.disabled_at is not null as is_disabled,
  u.created_at, m.org_id, m.is_org_admin, m.added_by, m.added_at,
  coalesce((
    select jsonb_agg(
      jsonb_build_object('teamId', t.id, 'isTeamAdmin', tm.is_team_admin, 'isEntrusted', tm.is_entrusted)
      order by tm.added_at, t.id)
    from team_memberships tm join teams t on t.id = tm.team_id
    where tm.user_id = u.id and t.disabled_at is null), '[]') as teams`;

/** The users of an organization that are not deleted; disabled ones are. */
export function createMembersRepository(db: Knex) {
  const members = (orgId: string) =>
    MembershipModel.query(db)
      .alias('m')
      .join('users as u', 'u.id', 'm.userId')
      .where('m.orgId', orgId)
      .whereNull('u.deletedAt');

  const user = (userId: string) => UserModel.query(db).where({ id: userId });
  const updatedAt = db.fn.now();

  return {
    async list(orgId: string): Promise<Member[]> {
      return rows(db, member, members(orgId).orderBy(['m.addedAt', 'u.id']).select(db.raw(memberColumns)));
    },

    async find(orgId: string, userId: string): Promise<Member | undefined> {
      return firstRow(db, member, members(orgId).where('u.id', userId).select(db.raw(memberColumns)));
    },

    /** Also a user that was deleted since. */
    async isMade(userId: string): Promise<boolean> {
      return (await UserModel.query(db).findById(userId).select('id')) !== undefined;
    },

    count: (orgId: string): Promise<number> => members(orgId).resultSize(),

    /** Org admins who can act as such, beside one. */
    countOtherAdmins: (orgId: string, userId: string): Promise<number> =>
      members(orgId).where('m.isOrgAdmin', true).whereNull('u.disabledAt').whereNot('u.id', userId).resultSize(),

    async setOrgAdmin(orgId: string, userId: string, isOrgAdmin: boolean): Promise<void> {
      await MembershipModel.query(db).where({ orgId, userId }).patch({ isOrgAdmin });
    },

    /** False when another user has the email; then the transaction can only be rolled back. */
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
