import type { Knex } from 'knex';
import {
  bigintColumn,
  booleanColumn,
  defineRowShape,
  doubleColumn,
  pickColumns,
  queryFirstRow,
  queryOneRow,
  queryRows,
  type SqlRow,
  textColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { JobKind } from '#src/contracts/jobs.ts';
import type { JobAttempt } from '#src/contracts/workflow-runs.ts';
import {
  type EndedJob,
  type Job,
  type JobError,
  JobModel,
  type JobUpdate,
  type NewJob,
  type UnfinishedJobsFilter,
} from './jobs.model.ts';

type Run = Pick<Job, 'id' | 'startId'>;

const jobId = pickColumns(JobModel, 'id');
const jobToStart = defineRowShape({ ...JobModel.columns, subject: textColumn().nullable() });
export type JobToStart = SqlRow<typeof jobToStart>;
/** Name of what a job works on, read at each start, because a job outlives its document and must not keep its name. */
const subjectOfJob = `coalesce(
  (select d.name from documents d where d.org_id = jobs.org_id and d.id = jobs.document_id),
  (select c.title from chats c where c.org_id = jobs.org_id and c.id = jobs.chat_id),
  (select k.display_name from connections k where k.org_id = jobs.org_id and k.id = jobs.connection_id),
  (select a.agent_name from agents a where a.org_id = jobs.org_id and a.id = jobs.agent_id)
) as subject`;
const done = defineRowShape({ isDone: booleanColumn() });

const openJobs = defineRowShape({
  ...pickColumns(JobModel, 'kind', 'status', 'errorCode').columns,
  count: bigintColumn(),
});
const outboxState = defineRowShape({ waiting: bigintColumn(), oldestSeconds: doubleColumn() });

/**
 * Statistics over all jobs. `outbox` counts jobs that are due but not started; `oldestSeconds` is the age of the
 * oldest, or 0.
 */
type JobStatistics = { open: SqlRow<typeof openJobs>[]; outbox: SqlRow<typeof outboxState> };

/** A missing import run counts as done, because import runs are deleted with their connection. */
const importIsDone = `not exists (
  select from import_runs r where r.id = (j.start -> 'input' ->> 'runId')::uuid and r.finished_at is null
)`;

/** A missing evaluation run counts as done: runs are deleted with their draft version. */
const evaluationIsDone = `not exists (
  select from evaluation_runs r
  where r.id = j.id and (r.finished_at is null or jsonb_array_length(r.failed_units) > 0)
)`;

/**
 * SQL conditions on a job `j` whose workflow run has completed. False if the database lacks the result, as after a
 * restore of an older database: the work is then repeated. Kinds whose missing result is produced later anyway have the
 * condition `true`.
 */
const doneWhen: { readonly [kind in JobKind]: string } = {
  ingest: `exists (
    select from document_generations g
    join documents d on d.org_id = g.org_id and d.id = g.document_id
    where g.document_id = j.document_id and g.job_id = j.id and d.active_generation >= g.generation
  )`,
  delete: 'not exists (select from documents d where d.id = j.document_id)',
  // A closed run counts as done without a check of the chat's scores, because the chat's next message queues the job
  // again.
  alignment: 'true',
  // Missing vectors of the new model need no check, because searches still use the old vectors and an operator can
  // start the job again.
  reembed: 'true',
  anchors: `not exists (
    select from agents a
    where a.org_id = j.org_id and a.id = j.agent_id and a.deleted_at is null and a.anchor_word_candidates = '{}'
  )`,
  preview: `not exists (
    select from documents d
    where d.org_id = j.org_id and d.id = j.document_id and d.deleted_at is null
      and not exists (select from previews p where p.org_id = d.org_id and p.original_key = d.blob_key)
  )`,
  evaluate: evaluationIsDone,
  compare: evaluationIsDone,
  import: importIsDone,
  sync: importIsDone,
  export: `not exists (
    select from exports e where e.id = (j.start -> 'input' ->> 'exportId')::uuid and e.completed_at is null
  )`,
  // The condition is about users only, because the job that erases an organization is deleted together with the
  // organization.
  erase: `exists (select from users u where u.id = substr(j.id, length('erase-') + 1)::uuid and u.email = '')`,
};

export function createJobsRepository(db: Knex) {
  const jobs = () => JobModel.table(db);
  return {
    /**
     * Inserts jobs, or queues existing ones again as their next attempt. The sweeper leaves them alone for
     * `graceSeconds`, because the request starts them itself.
     */
    async enqueue(all: readonly NewJob[], graceSeconds: number): Promise<void> {
      await db.raw(
        `insert into jobs (id, org_id, kind, status, start, acl, document_id, connection_id, chat_id, agent_id,
                           request_id, created_by, dispatch_after)
         select job."id", job."orgId", job."kind", 'queued', job."start", job."acl", job."documentId",
                job."connectionId", job."chatId", job."agentId", job."requestId", job."createdBy", now() + make_interval(secs => :graceSeconds)
         from jsonb_to_recordset(:jobs) as job (
           "id" text, "orgId" uuid, "kind" text, "start" jsonb, "acl" text[], "documentId" uuid, "connectionId" uuid,
           "chatId" uuid, "agentId" uuid, "requestId" text, "createdBy" uuid
         )
         on conflict (id) do update set
           status = 'queued', stage = null, attempt = jobs.attempt + 1, start_id = gen_random_uuid(),
           error_code = null, error_message = null, start = excluded.start, acl = excluded.acl, request_id = excluded.request_id,
           dispatch_after = excluded.dispatch_after, dispatched_at = null, cancel_requested_at = null, checked_at = null, started_at = null,
           finished_at = null, updated_at = now()
         where jobs.org_id = excluded.org_id`,
        { jobs: JSON.stringify(all), graceSeconds },
      );
    },

    async findUndispatched(id: string): Promise<JobToStart | undefined> {
      const query = `select jobs.*, ${subjectOfJob} from jobs where id = :id and dispatched_at is null and finished_at is null`;
      return queryFirstRow(db, jobToStart, query, { id });
    },

    async claimUndispatched(limit: number, leaseSeconds: number): Promise<JobToStart[]> {
      return queryRows(
        db,
        jobToStart,
        `update jobs set dispatch_after = now() + make_interval(secs => :leaseSeconds)
         where id in (
           select id from jobs where dispatched_at is null and finished_at is null and dispatch_after <= now()
           order by dispatch_after limit :limit for update skip locked
         )
         returning jobs.*, ${subjectOfJob}`,
        { limit, leaseSeconds },
      );
    },

    async markDispatched({ id, startId }: Run): Promise<void> {
      await JobModel.query(db).where({ id, startId }).patch({ dispatchedAt: db.fn.now(), checkedAt: db.fn.now() });
    },

    async claimUnchecked(limit: number, olderThanSeconds: number): Promise<Job[]> {
      return queryRows(
        db,
        JobModel,
        `update jobs set checked_at = now()
         where id in (
           select id from jobs
           where finished_at is null and dispatched_at is not null
             and checked_at < now() - make_interval(secs => :olderThanSeconds)
           order by checked_at limit :limit for update skip locked
         )
         returning *`,
        { limit, olderThanSeconds },
      );
    },

    async listOpenIds(of: UnfinishedJobsFilter): Promise<string[]> {
      return jobs().where(of).whereNull('finishedAt').orderBy('createdAt').pluck('id');
    },

    async isOpen(id: string): Promise<boolean> {
      return (await jobs().where({ id }).forUpdate().first('finishedAt'))?.finishedAt === null;
    },

    async listEnded(ids: readonly string[]): Promise<EndedJob[]> {
      return jobs().whereIn('id', ids).whereNotNull('finishedAt').select('id', 'status', 'errorCode');
    },

    /** Queues an open job again because its workflow run is lost. Closes the job if its cancellation was requested. */
    async requeue({ id, startId }: Run): Promise<void> {
      await db.raw(
        `update jobs set
           status = case when cancel_requested_at is null then 'queued' else 'cancelled' end,
           finished_at = case when cancel_requested_at is not null then now() end,
           dispatched_at = null, error_code = null, error_message = null, updated_at = now()
         where id = :id and start_id = :startId and finished_at is null`,
        { id, startId },
      );
    },

    async recordParked({ id, startId, updatedAt }: Job, error: JobError): Promise<void> {
      await JobModel.query(db)
        .where({ id, startId })
        .whereIn('status', ['queued', 'running'])
        // The Postgres driver truncates timestamps to milliseconds, so the comparison truncates the stored `updated_at`
        // too.
        .whereRaw(`date_trunc('milliseconds', updated_at) = ?`, [updatedAt])
        .patch({ status: 'parked', errorCode: error.code, errorMessage: error.message, updatedAt: db.fn.now() });
    },

    async isDone({ id, kind }: Run & Pick<Job, 'kind'>): Promise<boolean> {
      const query = `select exists (select from jobs j where j.id = :id and ${doneWhen[kind]}) as is_done`;
      return (await queryOneRow(db, done, query, { id })).isDone;
    },

    /**
     * Updates a job. A closed job is reopened only by a new status, not by late progress. A reopened job is compared
     * with its Temporal run at once, because either the run was reset or the update came late.
     */
    async advance(id: string, change: JobUpdate, of: JobAttempt = {}): Promise<void> {
      const { status, stage, progress, error } = change;
      const now = db.fn.now();
      const isEnd = status === 'succeeded' || status === 'failed' || status === 'cancelled';
      // A retried step keeps the error of its last attempt, so that clients see why it takes long.
      const keptInStage = (column: string) =>
        status === 'running' && stage !== undefined
          ? db.raw(`case when status = 'running' and stage = ? then ${column} end`, [stage])
          : null;
      // A retried step first repeats the progress of its last attempt, so only progress beyond that clears the error.
      const keptUntilDone = (column: string) =>
        db.raw(`case when progress_done >= ? then ${column} end`, [progress?.done ?? 0]);
      const query = JobModel.query(db)
        .where({ id })
        .patch({
          // Not `now()`, the start of the transaction: streams read changes in the order of this time.
          updatedAt: db.raw('clock_timestamp()'),
          ...(status !== undefined && {
            status,
            startedAt: db.raw('coalesce(started_at, now())'),
            finishedAt: isEnd ? now : null,
            ...(!isEnd && { checkedAt: db.raw(`case when finished_at is null then checked_at else 'epoch' end`) }),
            errorCode: error?.code ?? keptInStage('error_code'),
            errorMessage: error?.message ?? keptInStage('error_message'),
            expectedSeconds: keptInStage('expected_seconds'),
          }),
          ...(stage !== undefined && { stage }),
          ...(progress !== undefined && {
            progressDone: progress.done,
            progressTotal: progress.total,
            progressUnit: progress.unit,
            ...(progress.expectedSeconds !== undefined && { expectedSeconds: progress.expectedSeconds }),
            ...(status === undefined && {
              errorCode: keptUntilDone('error_code'),
              errorMessage: keptUntilDone('error_message'),
            }),
          }),
        });
      if (status === undefined) query.whereNull('finishedAt');
      const { attempt, startId } = of;
      if (startId !== undefined) query.where({ startId }).whereNull('finishedAt');
      else if (attempt !== undefined) query.where({ attempt }).whereNull('finishedAt');
      await query;
    },

    /** Closes a job as cancelled, unless it was queued again after the start `startId` and needs another run. */
    async cancelUnlessQueuedSince(id: string, startId: string | undefined): Promise<void> {
      const now = db.fn.now();
      await JobModel.query(db)
        .where({ id })
        .whereNull('finishedAt')
        .whereRaw(`(status <> 'queued' or start_id = ?)`, [startId ?? null])
        .patch({ status: 'cancelled', errorCode: null, errorMessage: null, finishedAt: now, updatedAt: now });
    },

    /** Records why a job makes no progress. Leaves `updatedAt` alone, so that the job still counts as unchanged. */
    async recordBlocker({ id, startId }: Run, error: JobError): Promise<void> {
      await JobModel.query(db)
        .where({ id, startId })
        .whereIn('status', ['queued', 'running'])
        .patch({ errorCode: error.code, errorMessage: error.message });
    },

    async recordRetriedError(id: string, error: JobError): Promise<void> {
      await JobModel.query(db)
        .where({ id, status: 'running' })
        .patch({ errorCode: error.code, errorMessage: error.message, updatedAt: db.fn.now() });
    },

    async find(id: string): Promise<Job | undefined> {
      return JobModel.query(db).findById(id);
    },

    /**
     * Queues stopped jobs again: a closed job as its next attempt, a parked one to resume its run. Skips jobs that
     * another request has queued meanwhile.
     * @returns the number of queued jobs
     */
    async queueAgain(ids: readonly string[], how: { bulk: boolean; graceSeconds: number }): Promise<number> {
      const parked = await queryRows(
        db,
        jobId,
        `update jobs set
           dispatched_at = null, dispatch_after = now() + make_interval(secs => :graceSeconds), updated_at = now()
         where id = any (:ids) and status = 'parked'
         returning id`,
        { ids: [...ids], graceSeconds: how.graceSeconds },
      );
      const closed = await queryRows(
        db,
        jobId,
        `update jobs set
           status = 'queued', stage = null, attempt = attempt + 1, start_id = gen_random_uuid(), error_code = null, error_message = null,
           start = start || jsonb_build_object('bulk', :bulk::boolean),
           dispatched_at = null, dispatch_after = now() + make_interval(secs => :graceSeconds),
           cancel_requested_at = null, checked_at = null, started_at = null, finished_at = null, updated_at = now()
         where id = any (:ids) and status in ('failed', 'cancelled')
         returning id`,
        { ids: [...ids], ...how },
      );
      return parked.length + closed.length;
    },

    async recordCancellationRequest({ id, startId }: Pick<Job, 'id' | 'startId'>): Promise<void> {
      await JobModel.query(db)
        .where({ id, startId })
        .whereNull('cancelRequestedAt')
        .patch({ cancelRequestedAt: db.fn.now() });
    },

    async cancelUnstarted(id: string): Promise<void> {
      const now = db.fn.now();
      await JobModel.query(db)
        .where({ id, status: 'queued' })
        .whereNull('dispatchedAt')
        .patch({ status: 'cancelled', finishedAt: now, updatedAt: now });
    },

    async statistics(): Promise<JobStatistics> {
      const open = await queryRows(
        db,
        openJobs,
        `select kind, status, case when status = 'parked' then error_code end as error_code, count(*) as count
         from jobs where finished_at is null group by 1, 2, 3`,
      );
      const outbox = await queryOneRow(
        db,
        outboxState,
        `select count(*) as waiting, coalesce(extract(epoch from now() - min(updated_at)), 0)::float as oldest_seconds
         from jobs where dispatched_at is null and finished_at is null and dispatch_after <= now()`,
      );
      return { open, outbox };
    },
  };
}
