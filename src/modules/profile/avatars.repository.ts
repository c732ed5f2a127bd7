import type { Db } from '#src/ports/database.ts';
import type { Avatar } from './avatars.model.ts';

type Owner = { orgId: string; userId: string };

export function createAvatarsRepository(db: Db) {
  return {
    /** Until the end of the transaction the user does not leave. @returns false when he has */
    async holdUser(userId: string): Promise<boolean> {
      const user = await db('users').where('id', userId).whereNull('deletedAt').forNoKeyUpdate().first('id');
      return user !== undefined;
    },

    async put({ orgId, userId }: Owner, { content, sha256 }: Avatar): Promise<void> {
      await db('avatars')
        .insert({ orgId, userId, content, sha256, updatedAt: db.fn.now() })
        .onConflict('userId')
        .merge();
    },

    async delete({ userId }: Owner): Promise<void> {
      await db('avatars').where({ userId }).delete();
    },

    /** Of a member who is neither disabled nor gone. */
    async find({
      orgId,
      userId,
    }: Owner): Promise<{ content: Buffer | null; sha256: string | null; externalUrl: string | null } | undefined> {
      return db('memberships as m')
        .join('users as u', 'u.id', 'm.userId')
        .leftJoin('avatars as a', 'a.userId', 'u.id')
        .where({ 'm.orgId': orgId, 'u.id': userId })
        .whereNull('u.deletedAt')
        .whereNull('u.disabledAt')
        .first('a.content', 'a.sha256', 'u.avatarUrl as externalUrl');
    },
  };
}
