import type { Knex } from 'knex';
import { rows } from '#src/adapters/postgres/shapes.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { type JobFilters, type JobGroup, jobGroup } from './jobs.model.ts';
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
