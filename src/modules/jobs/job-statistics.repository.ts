import type { Knex } from 'knex';
import { bigint, double, oneRow, pick, type Row, rows, shape } from '#src/adapters/postgres/shapes.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { type JobFilters, type JobGroup, JobModel, jobGroup } from './jobs.model.ts';
import { readableJobs } from './jobs.repository.ts';

export function createJobSummaryRepository(db: Knex) {
  return {
    /** Without ingestions that a newer one of the same document has replaced. */
    async groups(actor: Actor, filters: JobFilters): Promise<JobGroup[]> {
      const groups = readableJobs(db, actor, filters)
        .whereRaw(
          `not exists (
             select from documents d
             join document_generations newest on newest.document_id = d.id and newest.generation = d.generation
             where d.id = jobs.document_id and d.generation > 1
               and jobs.kind = 'ingest' and jobs.id <> newest.job_id
           )`,
        )
        .groupBy('jobs.status', 'jobs.progressUnit')
        .select(
          'jobs.status',
          'jobs.progressUnit as unit',
          db.raw('count(*) as jobs'),
          db.raw('sum(jobs.progress_done) as done'),
          db.raw('coalesce(sum(jobs.progress_total), 0) as total'),
          db.raw('count(*) filter (where jobs.progress_total is null and jobs.finished_at is null) as unknown'),
        );
      return rows(db, jobGroup, groups);
    },
  };
}

const openJobs = shape({ ...pick(JobModel, 'kind', 'status', 'errorCode').columns, count: bigint() });
const outboxState = shape({ waiting: bigint(), oldestSeconds: double() });

type JobStatistics = {
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
