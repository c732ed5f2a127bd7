import type { Db } from '#src/ports/database.ts';

/** Connections that have changed since their schedules were brought in line. */
export function createConnectionSchedulesRepository(db: Db) {
  return {
    /** When it was changed last, as text that keeps every digit; undefined when nothing is to be done. */
    async find(connectionId: string): Promise<string | undefined> {
      const row = await db('connectionSchedules')
        .where({ connectionId })
        .whereNotNull('outdatedAt')
        .first<{ outdatedAt: string } | undefined>(db.raw('outdated_at::text'));
      return row?.outdatedAt;
    },

    /** @returns false when it was changed again, or somebody else was first */
    async settle(connectionId: string, outdatedAt: string): Promise<boolean> {
      const settled = await db('connectionSchedules')
        .where({ connectionId })
        .whereRaw('outdated_at = ?::timestamptz', [outdatedAt])
        .update({ outdatedAt: null });
      return settled > 0;
    },

    /** Of a connection that is gone, and has a schedule all the same. */
    async remember(of: { orgId: string; connectionId: string }): Promise<void> {
      await db('connectionSchedules')
        .insert({ ...of, outdatedAt: db.raw('clock_timestamp()') })
        .onConflict('connectionId')
        .ignore();
    },

    /** Of a connection that is gone. */
    async forget(connectionId: string): Promise<void> {
      await db('connectionSchedules').where({ connectionId }).delete();
    },

    async listOutdated(graceSeconds: number, limit: number): Promise<{ orgId: string; connectionId: string }[]> {
      return db('connectionSchedules')
        .whereRaw('outdated_at < clock_timestamp() - make_interval(secs => ?)', [graceSeconds])
        .orderBy('outdatedAt')
        .limit(limit)
        .select('orgId', 'connectionId');
    },

    /** As if the connection had changed. */
    async outdate({ orgId, connectionId }: { orgId: string; connectionId: string }): Promise<void> {
      await db('connectionSchedules')
        .where({ orgId, connectionId })
        .update({ outdatedAt: db.raw('clock_timestamp()') });
    },

    async outdateAll(): Promise<void> {
      await db('connectionSchedules')
        .whereNull('outdatedAt')
        .update({ outdatedAt: db.raw('clock_timestamp()') });
    },

    /** Jobs of runs that wait for the connection to work again. */
    async listParked(of: { orgId: string; connectionId: string }): Promise<string[]> {
      const codes = ['needs_reauth', 'not_granted', 'credentials_unreadable', 'provider_not_configured'];
      return db('importRuns').where(of).where({ status: 'parked' }).whereIn('errorCode', codes).pluck('job_id');
    },
  };
}
