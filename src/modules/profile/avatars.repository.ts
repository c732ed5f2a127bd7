import type { Knex } from 'knex';
import { bytea, type Row, text } from '#src/adapters/postgres/columns.ts';
import { firstRow, shape } from '#src/adapters/postgres/shapes.ts';
import { UserModel } from '#src/modules/auth/auth.model.ts';
import { type Avatar, AvatarModel } from './avatars.model.ts';

const stored = shape({ content: bytea().nullable(), sha256: text().nullable(), externalUrl: text().nullable() });

type Owner = { orgId: string; userId: string };

export function createAvatarsRepository(db: Knex) {
  return {
    /**
     * The avatar is a part of the profile. Until the end of the transaction the user is not deleted.
     * @returns false when the user is deleted already
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

    /** Of a member who is neither disabled nor gone. */
    async find({ orgId, userId }: Owner): Promise<Row<typeof stored> | undefined> {
      const member = UserModel.query(db)
        .alias('u')
        .join('memberships as m', 'm.userId', 'u.id')
        .leftJoin('avatars as a', 'a.userId', 'u.id')
        .where('m.orgId', orgId)
        .where('u.id', userId)
        .whereNull('u.deletedAt')
        .whereNull('u.disabledAt')
        .select('a.content', 'a.sha256', 'u.avatarUrl as externalUrl');
      return firstRow(db, stored, member);
    },
  };
}
