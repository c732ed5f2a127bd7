import type { Knex } from 'knex';
import { bigint, double, type Row } from '#src/adapters/postgres/columns.ts';
import { oneRow, pick, rows, shape } from '#src/adapters/postgres/shapes.ts';
import { JobModel } from './jobs.model.ts';

const openJobs = shape({ ...pick(JobModel, 'kind', 'status', 'errorCode').columns, count: bigint() });
const outboxState = shape({ waiting: bigint(), oldestSeconds: double() });

export type JobStatistics = {
  open: Row<typeof openJobs>[];
  /** Jobs that were to be started by now; the age of the oldest is 0 without any. */
  outbox: Row<typeof outboxState>;
};

/** Of all organizations. Reads what is open, by the index of that, and nothing of what is over. */
export function createJobStatisticsRepository(db: Knex) {
  return {
    async read(): Promise<JobStatistics> {
      const open = await rows(
        db,
        openJobs,
        `select kind, status, case when status = 'parked' then error_code end as error_code, count(*) as count
         from jobs where finished_at is null group by 1, 2, 3`,
      );
      const outbox = await oneRow(
        db,
        outboxState,
        `select count(*) as waiting, coalesce(extract(epoch from now() - min(updated_at)), 0)::float as oldest_seconds
         from jobs where dispatched_at is null and finished_at is null and dispatch_after <= now()`,
      );
      return { open, outbox };
    },
  };
}
