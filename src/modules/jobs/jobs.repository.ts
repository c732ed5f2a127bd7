import type { Knex } from 'knex';
import { newestFirst, toPage } from '#src/adapters/postgres/keyset.ts';
import { readableBy } from '#src/adapters/postgres/readable.ts';
import { boolean, oneRow, rows, shape, text } from '#src/adapters/postgres/shapes.ts';
import type { JobKind } from '#src/contracts/jobs.ts';
import type { ListPosition } from '#src/contracts/request-data.ts';
import type { AttemptOfJob } from '#src/contracts/workflow-runs.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { FolderLinkModel } from '#src/modules/documents/documents.model.ts';
import {
  type EndedJob,
  type Job,
  type JobChange,
  type JobError,
  type JobFilters,
  JobModel,
  type NewJob,
  type OpenRunsOf,
  type WatchedJob,
  watchedJob,
} from './jobs.model.ts';

type Run = Pick<Job, 'id' | 'startId'>;

const done = shape({ isDone: boolean() });
const listedJob = shape({ ...JobModel.columns, sortKey: text() });

/** A connection that is gone has taken its runs along. */
const importIsDone = `not exists (
  select from import_runs r where r.id = (j.start -> 'input' ->> 'runId')::uuid and r.finished_at is null
)`;

/** What it was about may be gone since, and its results with that. */
const evaluationIsDone = `not exists (
  select from evaluation_runs r
  where r.id = j.id and (r.finished_at is null or jsonb_array_length(r.failed_units) > 0)
)`;

/**
 * Where a completed run has left its mark in the database, as a condition on its job `j`: a database without it is an
 * older one, and the work is done again. `true` is for work that the next of its kind takes up by itself.
 */
const doneWhen: { readonly [kind in JobKind]: string } = {
  ingest: `exists (
    select from document_generations g
    join documents d on d.org_id = g.org_id and d.id = g.document_id
    where g.document_id = j.document_id and g.job_id = j.id and d.active_generation >= g.generation
  )`,
  delete: 'not exists (select from documents d where d.id = j.document_id)',
  // The next message of its chat queues it again.
  alignment: 'true',
  // Readers find the old vectors, and an operator begins again.
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
  // One that was deleted is wanted by nobody.
  export: `not exists (
    select from exports e where e.id = (j.start -> 'input' ->> 'exportId')::uuid and e.completed_at is null
  )`,
  // That of an organization goes with it.
  erase: `exists (select from users u where u.id = substr(j.id, length('erase-') + 1)::uuid and u.email = '')`,
};

/** Those that match and that the caller may read. */
export function readableJobs(db: Knex, actor: Actor, { folderId, ...columns }: JobFilters) {
  const given = Object.entries(columns).flatMap(([name, value]) =>
    value === undefined ? [] : [[`jobs.${name}`, value]],
  );
  const query = readableBy(JobModel.table(db), actor, 'jobs').where(Object.fromEntries(given));
  if (folderId !== undefined) {
    const links = FolderLinkModel.table(db)
      .join('folders', 'folders.id', 'folderLinks.folderId')
      .where({ 'folderLinks.orgId': actor.orgId, folderId });
    query.whereIn('jobs.documentId', readableBy(links, actor, 'folders').select('folderLinks.documentId'));
  }
  return query;
}

export function createJobsRepository(db: Knex) {
  const jobs = () => JobModel.table(db);

  return {
    /**
     * Of jobs with different ids. A reused id goes back to the queue as another attempt. `graceSeconds` keeps the sweeper away from it for as long
     * as its own request needs to start it.
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

    async findUndispatched(id: string): Promise<Job | undefined> {
      return JobModel.query(db).findById(id).whereNull('dispatchedAt').whereNull('finishedAt');
    },

    /** Takes jobs that wait to be started; nobody else takes them before `leaseSeconds` are over. */
    async claimUndispatched(limit: number, leaseSeconds: number): Promise<Job[]> {
      return rows(
        db,
        JobModel,
        `update jobs set dispatch_after = now() + make_interval(secs => :leaseSeconds)
         where id in (
           select id from jobs where dispatched_at is null and finished_at is null and dispatch_after <= now()
           order by dispatch_after limit :limit for update skip locked
         )
         returning *`,
        { limit, leaseSeconds },
      );
    },

    async markDispatched({ id, startId }: Run): Promise<void> {
      await JobModel.query(db).where({ id, startId }).patch({ dispatchedAt: db.fn.now(), checkedAt: db.fn.now() });
    },

    /** Takes open jobs that nobody looked after for `olderThanSeconds`. */
    async claimUnchecked(limit: number, olderThanSeconds: number): Promise<Job[]> {
      return rows(
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

    /** Oldest first. */
    async listOpenIds(of: OpenRunsOf): Promise<string[]> {
      return jobs().where(of).whereNull('finishedAt').orderBy('createdAt').pluck('id');
    },

    /** Holds the job, if there is one. */
    async isOpen(id: string): Promise<boolean> {
      return (await jobs().where({ id }).forUpdate().first('finishedAt'))?.finishedAt === null;
    },

    /** Those of the jobs that are over. */
    async listEnded(ids: readonly string[]): Promise<EndedJob[]> {
      return jobs().whereIn('id', ids).whereNotNull('finishedAt').select('id', 'status', 'errorCode');
    },

    /**
     * Of an attempt that is still open: its run is gone, so that it has to be started again, unless somebody has asked it
     * to stop.
     */
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

    /** A run that waits for a person without having said so here; not when the job has moved since it was read. */
    async noteParked({ id, startId, updatedAt }: Job, error: JobError): Promise<void> {
      await JobModel.query(db)
        .where({ id, startId })
        .whereIn('status', ['queued', 'running'])
        // The driver reads milliseconds.
        .whereRaw(`date_trunc('milliseconds', updated_at) = ?`, [updatedAt])
        .patch({ status: 'parked', errorCode: error.code, errorMessage: error.message, updatedAt: db.fn.now() });
    },

    /** False for one whose run did its work on another database, of which an older one was restored since. */
    async isDone({ id, kind }: Run & Pick<Job, 'kind'>): Promise<boolean> {
      const query = `select exists (select from jobs j where j.id = :id and ${doneWhen[kind]}) as is_done`;
      return (await oneRow(db, done, query, { id })).isDone;
    },

    /**
     * A closed job only opens again with a new status: progress that comes late changes nothing. Whether its run was
     * reset, or a worker slept through its end, the engine knows, which is asked at once.
     */
    async advance(id: string, change: JobChange, of: AttemptOfJob = {}): Promise<void> {
      const { status, stage, progress, error } = change;
      const now = db.fn.now();
      const isEnd = status === 'succeeded' || status === 'failed' || status === 'cancelled';
      /** A step that begins again keeps what it failed on, for those who wonder why it takes so long. */
      const keptInStage = (column: string) =>
        status === 'running' && stage !== undefined
          ? db.raw(`case when status = 'running' and stage = ? then ${column} end`, [stage])
          : null;
      /** One that is tried again also says first how far it had come; only what is done beyond that is a way forward. */
      const keptUntilDone = (column: string) =>
        db.raw(`case when progress_done >= ? then ${column} end`, [progress?.done ?? 0]);
      const query = JobModel.query(db)
        .where({ id })
        .patch({
          updatedAt: now,
          ...(status !== undefined && {
            status,
            startedAt: db.raw('coalesce(started_at, now())'),
            finishedAt: isEnd ? now : null,
            ...(!isEnd && { checkedAt: db.raw(`case when finished_at is null then checked_at else 'epoch' end`) }),
            errorCode: error?.code ?? keptInStage('error_code'),
            errorMessage: error?.message ?? keptInStage('error_message'),
          }),
          ...(stage !== undefined && { stage }),
          ...(progress !== undefined && {
            progressDone: progress.done,
            progressTotal: progress.total,
            progressUnit: progress.unit,
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

    /** What was queued since that start waits for another run. */
    async cancelUnlessQueuedSince(id: string, startId: string | undefined): Promise<void> {
      const now = db.fn.now();
      await JobModel.query(db)
        .where({ id })
        .whereNull('finishedAt')
        .whereRaw(`(status <> 'queued' or start_id = ?)`, [startId ?? null])
        .patch({ status: 'cancelled', errorCode: null, errorMessage: null, finishedAt: now, updatedAt: now });
    },

    /** Why a job does not get on, as others than its steps see it: it is as silent as before. */
    async noteObstacle({ id, startId }: Run, error: JobError): Promise<void> {
      await JobModel.query(db)
        .where({ id, startId })
        .whereIn('status', ['queued', 'running'])
        .patch({ errorCode: error.code, errorMessage: error.message });
    },

    /** Of a job that goes on all the same. */
    async noteFault(id: string, error: JobError): Promise<void> {
      await JobModel.query(db)
        .where({ id, status: 'running' })
        .patch({ errorCode: error.code, errorMessage: error.message, updatedAt: db.fn.now() });
    },

    async listReadable(
      actor: Actor,
      filters: JobFilters,
      page: { limit: number; after: ListPosition | null },
    ): Promise<{ items: Job[]; last: ListPosition | null }> {
      const query = readableJobs(db, actor, filters).select('jobs.*');
      const listed = newestFirst(query, { ...page, time: 'jobs.createdAt', id: 'jobs.id' });
      return toPage(await rows(db, listedJob, listed), page.limit);
    },

    async find(id: string): Promise<Job | undefined> {
      return JobModel.query(db).findById(id);
    },

    async findWatched(ids: readonly string[]): Promise<WatchedJob[]> {
      const query = JobModel.table(db).whereRaw('id = any(?)', [[...ids]]);
      return rows(db, watchedJob, query.select(Object.keys(watchedJob.columns)));
    },

    async findReadable(actor: Actor, id: string): Promise<Job | undefined> {
      const [job] = await readableBy(jobs(), actor, 'jobs').where({ id }).limit(1);
      return job;
    },
  };
}
