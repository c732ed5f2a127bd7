import { isUniqueViolation } from '#src/adapters/postgres/unique-violation.ts';
import type { Db } from '#src/ports/database.ts';
import type { Member } from './members.model.ts';

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
export function createMembersRepository(db: Db) {
  const members = (orgId: string) =>
    db('memberships as m').join('users as u', 'u.id', 'm.userId').where('m.orgId', orgId).whereNull('u.deletedAt');

  const count = async (query: ReturnType<typeof members>): Promise<number> => {
    const [row] = await query.count<{ count: number }[]>({ count: '*' });
    return row?.count ?? 0;
  };

  const update = async (userId: string, columns: object): Promise<void> => {
    await db('users')
      .where('id', userId)
      .update({ ...columns, updatedAt: db.fn.now() });
  };

  return {
    async list(orgId: string): Promise<Member[]> {
      return members(orgId).orderBy(['m.addedAt', 'u.id']).select(db.raw(memberColumns));
    },

    async find(orgId: string, userId: string): Promise<Member | undefined> {
      return members(orgId).where('u.id', userId).first(db.raw(memberColumns));
    },

    count: (orgId: string) => count(members(orgId)),

    /** Org admins who can act as such, beside one. */
    countOtherAdmins: (orgId: string, userId: string) =>
      count(members(orgId).where('m.isOrgAdmin', true).whereNull('u.disabledAt').whereNot('u.id', userId)),

    async setOrgAdmin(orgId: string, userId: string, isOrgAdmin: boolean): Promise<void> {
      await db('memberships').where({ orgId, userId }).update({ isOrgAdmin });
    },

    /** False when somebody else has the email; then the transaction can only be rolled back. */
    async update(userId: string, user: { email: string; displayName: string }): Promise<boolean> {
      try {
        await update(userId, user);
        return true;
      } catch (error) {
        if (isUniqueViolation(error, 'users_email_key')) return false;
        throw error;
      }
    },

    async setDisabled(userId: string, isDisabled: boolean): Promise<void> {
      await update(userId, { disabledAt: isDisabled ? db.fn.now() : null });
    },

    async setPassword(userId: string, passwordHash: string): Promise<void> {
      await update(userId, { passwordHash });
    },
  };
}
