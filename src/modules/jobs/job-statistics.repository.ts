import type { JobKind, JobStatus } from '#src/contracts/jobs.ts';
import type { Db } from '#src/ports/database.ts';

export type JobStatistics = {
  open: { kind: JobKind; status: JobStatus; errorCode: string | null; count: number }[];
  /** Jobs that were to be started by now; the age of the oldest is 0 without any. */
  outbox: { waiting: number; oldestSeconds: number };
};

/** Of all organizations. Reads what is open, by the index of that, and nothing of what is over. */
export function createJobStatisticsRepository(db: Db) {
  return {
    async read(): Promise<JobStatistics> {
      const { rows: open } = await db.raw<{ rows: JobStatistics['open'] }>(
        `select kind, status, case when status = 'parked' then error_code end as error_code, count(*) as count
         from jobs where finished_at is null group by 1, 2, 3`,
      );
      const { rows } = await db.raw<{ rows: JobStatistics['outbox'][] }>(
        `select count(*) as waiting, coalesce(extract(epoch from now() - min(updated_at)), 0)::float as oldest_seconds
         from jobs where dispatched_at is null and finished_at is null and dispatch_after <= now()`,
      );
      return { open, outbox: rows[0] ?? { waiting: 0, oldestSeconds: 0 } };
    },
  };
}
