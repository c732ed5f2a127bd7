import type { Knex } from 'knex';
import { text } from '#src/adapters/postgres/columns.ts';
import { firstRow, shape } from '#src/adapters/postgres/shapes.ts';
import { ConnectionScheduleModel, ImportRunModel } from './imports.model.ts';

/** Longer than the calls of the engine take; who is slower than that does it again. */
const LEASE_SECONDS = 30;

/** With every digit. */
const changedAt = shape({ outdatedAt: text() });

/** Connections that have changed since their schedules were brought in line. */
export function createConnectionSchedulesRepository(db: Knex) {
  return {
    /**
     * @returns when the connection was changed last, as text that keeps every digit; undefined when nothing is to be
     * done, or somebody else does it, who will see whatever was changed until he is done
     */
    async take(connectionId: string): Promise<string | undefined> {
      const taking = ConnectionScheduleModel.table(db)
        .where({ connectionId })
        .whereNotNull('outdatedAt')
        .whereRaw('(leased_until is null or leased_until < clock_timestamp())')
        .update({ leasedUntil: db.raw('clock_timestamp() + make_interval(secs => ?)', [LEASE_SECONDS]) })
        .returning(db.raw('outdated_at::text'));
      return (await firstRow(db, changedAt, taking))?.outdatedAt;
    },

    /**
     * Gives it back.
     * @param done what `take` returned, when all that followed from it is carried out; undefined when that failed
     * @returns false when something is to be done: it was changed again, or somebody else has taken it meanwhile
     */
    async giveBack(connectionId: string, done: string | undefined): Promise<boolean> {
      const isSettled = db.raw('case when outdated_at = ?::timestamptz then null else clock_timestamp() end', [
        done ?? null,
      ]);
      const [row] = await ConnectionScheduleModel.table(db)
        .where({ connectionId })
        .update({ leasedUntil: null, outdatedAt: isSettled })
        .returning('outdatedAt');
      return row === undefined || row.outdatedAt === null;
    },

    /** Of a connection that is gone, and has a schedule all the same. */
    async remember(of: { orgId: string; connectionId: string }): Promise<void> {
      await ConnectionScheduleModel.table(db)
        .insert({ ...of, outdatedAt: db.raw('clock_timestamp()') })
        .onConflict('connectionId')
        .ignore();
    },

    /** Of a connection that is gone. */
    async forget(connectionId: string): Promise<void> {
      await ConnectionScheduleModel.table(db).where({ connectionId }).delete();
    },

    async listOutdated(graceSeconds: number, limit: number): Promise<{ orgId: string; connectionId: string }[]> {
      return ConnectionScheduleModel.table(db)
        .whereRaw('outdated_at < clock_timestamp() - make_interval(secs => ?)', [graceSeconds])
        .orderBy('outdatedAt')
        .limit(limit)
        .select('orgId', 'connectionId');
    },

    /** As if the connection had changed. */
    async outdate({ orgId, connectionId }: { orgId: string; connectionId: string }): Promise<void> {
      await ConnectionScheduleModel.table(db)
        .where({ orgId, connectionId })
        .update({ outdatedAt: db.raw('clock_timestamp()') });
    },

    async outdateAll(): Promise<void> {
      await ConnectionScheduleModel.table(db)
        .whereNull('outdatedAt')
        .update({ outdatedAt: db.raw('clock_timestamp()') });
    },

    /** Jobs of runs that wait for the connection to work again. */
    async listParked(of: { orgId: string; connectionId: string }): Promise<string[]> {
      const codes = ['needs_reauth', 'not_granted', 'credentials_unreadable', 'provider_not_configured'];
      const parked = ImportRunModel.table(db).where(of).where({ status: 'parked' }).whereIn('errorCode', codes);
      return (await parked.select('jobId')).map(({ jobId }) => jobId);
    },
  };
}
