import type { Db } from '#src/ports/database.ts';
import type { Membership, Profile, ProfileChange } from './profile.model.ts';

export function createProfileRepository(db: Db) {
  const user = (userId: string) => db('users').where('id', userId);

  return {
    async find(userId: string): Promise<Profile | undefined> {
      return user(userId).first(
        'id as userId',
        'email',
        'firstName',
        'lastName',
        'displayName',
        'avatarUrl',
        db.raw('password_hash is not null as has_password'),
        db.raw('exists (select from avatars where user_id = users.id) as has_avatar'),
      );
    },

    async lock(userId: string): Promise<void> {
      await user(userId).forNoKeyUpdate().first('id');
    },

    /** Knex leaves out what is undefined. */
    async update(userId: string, { firstName, lastName, displayName }: ProfileChange): Promise<void> {
      await user(userId).update({ firstName, lastName, displayName, updatedAt: db.fn.now() });
    },

    /** With the live teams in the order in which the user came to them. */
    async findMembership(userId: string): Promise<Membership | undefined> {
      const [membership, teams] = await Promise.all([
        db('memberships as m')
          .join('organizations as o', 'o.id', 'm.orgId')
          .where('m.userId', userId)
          .first('o.id as orgId', 'o.name as orgName', 'o.tier', 'm.userId', 'm.isOrgAdmin'),
        db('teamMemberships as tm')
          .join('teams as t', 't.id', 'tm.teamId')
          .where('tm.userId', userId)
          .whereNull('t.disabledAt')
          .orderBy(['tm.addedAt', 't.id'])
          .select('t.id as teamId', 't.name', 'tm.isTeamAdmin', 'tm.addedAt'),
      ]);
      return membership && { ...membership, teams };
    },
  };
}
