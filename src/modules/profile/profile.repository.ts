import type { Knex } from 'knex';
import { withoutUndefinedFields } from '#src/adapters/postgres/base-model.ts';
import {
  byteaColumn,
  defineRowShape,
  queryFirstRow,
  queryRows,
  type SqlRow,
  textColumn,
} from '#src/adapters/postgres/shapes.ts';
import { MembershipModel, UserModel } from '#src/modules/auth/auth.model.ts';
import { TeamMembershipModel } from '#src/modules/teams/teams.model.ts';
import {
  type Avatar,
  AvatarModel,
  type Membership,
  membershipRowShape,
  type Profile,
  type ProfileChange,
  profileRowShape,
  userTeamRowShape,
} from './profile.model.ts';

export function createProfileRepository(db: Knex) {
  const user = (userId: string) => UserModel.query(db).where({ id: userId });

  return {
    async find(userId: string): Promise<Profile | undefined> {
      return queryFirstRow(
        db,
        profileRowShape,
        `select id as user_id, email, first_name, last_name, display_name, avatar_url, version,
                password_hash is not null as has_password,
                exists (select from avatars where user_id = users.id) as has_avatar
         from users where id = ?`,
        [userId],
      );
    },

    async lock(userId: string): Promise<Pick<Profile, 'version'> | undefined> {
      return user(userId).forNoKeyUpdate().select('version').first();
    },

    async update(userId: string, { firstName, lastName, displayName }: ProfileChange): Promise<void> {
      await user(userId).patch({
        ...withoutUndefinedFields({ firstName, lastName, displayName }),
        updatedAt: db.fn.now(),
      });
    },

    /** Finds the user's organization and teams; excludes disabled teams, and sorts by when the user joined. */
    async findMembership(userId: string): Promise<Membership | undefined> {
      const memberships = MembershipModel.query(db)
        .alias('m')
        .join('organizations as o', 'o.id', 'm.orgId')
        .where('m.userId', userId)
        .select(
          ...['o.id as orgId', 'o.name as orgName', 'o.tier', 'o.teamAdminsContribute', 'm.userId', 'm.isOrgAdmin'],
        );
      const live = TeamMembershipModel.query(db)
        .alias('tm')
        .join('teams as t', 't.id', 'tm.teamId')
        .where('tm.userId', userId)
        .whereNull('t.disabledAt')
        .orderBy(['tm.addedAt', 't.id'])
        .select('t.id as teamId', 't.name', 'tm.isTeamAdmin', 'tm.addedAt');
      const [found, teams] = await Promise.all([
        queryFirstRow(db, membershipRowShape, memberships),
        queryRows(db, userTeamRowShape, live),
      ]);
      return found && { ...found, teams };
    },
  };
}

const stored = defineRowShape({
  content: byteaColumn().nullable(),
  sha256: textColumn().nullable(),
  externalUrl: textColumn().nullable(),
});

type Owner = { orgId: string; userId: string };

export function createAvatarsRepository(db: Knex) {
  return {
    /**
     * Locks the user's row and increments the profile's version for a new avatar. Returns false for a deleted user.
     */
    async touchUser(userId: string): Promise<boolean> {
      const user = UserModel.query(db).where({ id: userId }).whereNull('deletedAt');
      return (await user.patch({ updatedAt: db.fn.now() })) > 0;
    },

    async put({ orgId, userId }: Owner, { content, sha256 }: Avatar): Promise<void> {
      await AvatarModel.query(db)
        .insert({ orgId, userId, content, sha256, updatedAt: db.fn.now() })
        .onConflict('userId')
        .merge();
    },

    async delete({ userId }: Owner): Promise<void> {
      await AvatarModel.query(db).where({ userId }).delete();
    },

    async find({ orgId, userId }: Owner): Promise<SqlRow<typeof stored> | undefined> {
      const member = UserModel.query(db)
        .alias('u')
        .join('memberships as m', 'm.userId', 'u.id')
        .leftJoin('avatars as a', 'a.userId', 'u.id')
        .where('m.orgId', orgId)
        .where('u.id', userId)
        .whereNull('u.deletedAt')
        .whereNull('u.disabledAt')
        .select('a.content', 'a.sha256', 'u.avatarUrl as externalUrl');
      return queryFirstRow(db, stored, member);
    },
  };
}
