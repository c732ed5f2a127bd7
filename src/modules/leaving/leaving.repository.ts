import type { Db } from '#src/ports/database.ts';

/** `name` is empty once it is erased. */
export type LeavingOrganization = { name: string; deletedAt: Date | null; eraseDueAt: Date | null };

export function createLeavingRepository(db: Db) {
  const gone = (eraseAfterDays: number) => ({
    deletedAt: db.fn.now(),
    eraseDueAt: db.raw('now() + make_interval(days => ?)', [eraseAfterDays]),
    updatedAt: db.fn.now(),
  });

  async function end(table: 'users' | 'organizations', ids: readonly string[], eraseAfterDays: number): Promise<Date> {
    const [row] = await db(table)
      .whereIn('id', [...ids])
      .whereNull('deletedAt')
      .update(gone(eraseAfterDays))
      .returning<{ eraseDueAt: Date }[]>('eraseDueAt');
    if (row === undefined) throw new Error(`nobody of ${table} ended`);
    return row.eraseDueAt;
  }

  return {
    /** Of an organization, disabled ones too. */
    async listMembers(orgId: string): Promise<string[]> {
      return db('memberships as m')
        .join('users as u', 'u.id', 'm.userId')
        .where('m.orgId', orgId)
        .whereNull('u.deletedAt')
        .pluck('u.id');
    },

    /**
     * Their emails are free from then on. The row of a membership stays: it says where the user belonged.
     * @returns when what they leave behind is to be erased
     */
    async endAccounts(userIds: readonly string[], eraseAfterDays: number): Promise<Date> {
      await db('teamMemberships')
        .whereIn('userId', [...userIds])
        .delete();
      await db('memberships')
        .whereIn('userId', [...userIds])
        .update({ isOrgAdmin: false });
      const dueAt = await end('users', userIds, eraseAfterDays);
      // Behind the rows of the users: whoever gives one an identity holds that row. And who comes back comes anew.
      await db('userIdentities')
        .whereIn('userId', [...userIds])
        .delete();
      return dueAt;
    },

    async findOrganization(orgId: string): Promise<LeavingOrganization | undefined> {
      return db('organizations').where({ id: orgId }).first('name', 'deletedAt', 'eraseDueAt');
    },

    /** @returns when it is due now, and for whom its job is; undefined when it is so already, or done */
    async hurryOrganization(orgId: string): Promise<{ dueAt: Date; createdBy: string } | undefined> {
      const job = await db('jobs')
        .where({ id: `erase-${orgId}` })
        .first('createdBy');
      if (job === undefined) return undefined;
      const [due] = await db('organizations')
        .where({ id: orgId })
        .whereNotNull('deletedAt')
        .where('eraseDueAt', '>', db.fn.now())
        .update({ eraseDueAt: db.fn.now() })
        .returning<{ eraseDueAt: Date }[]>('eraseDueAt');
      return due && { dueAt: due.eraseDueAt, createdBy: job.createdBy };
    },

    async endOrganization(orgId: string, eraseAfterDays: number): Promise<void> {
      await end('organizations', [orgId], eraseAfterDays);
    },
  };
}
