import type { Knex } from 'knex';
import { firstRow, integer, pick, type Row, rows, shape, textArray, uuid } from '#src/adapters/postgres/shapes.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { type Job, type JobFilters, JobModel } from './jobs.model.ts';
import { readableJobs } from './jobs.repository.ts';

/** A job beside what it works on. `null` where that is no document or chat, or is deleted. */
const movableJob = shape({
  ...JobModel.columns,
  documentOwnerId: uuid().nullable(),
  documentAcl: textArray().nullable(),
  newestGeneration: integer().nullable(),
  chatOwnerId: uuid().nullable(),
});
export type MovableJob = Row<typeof movableJob>;

const queued = pick(JobModel, 'id');

export function createJobMovesRepository(db: Knex) {
  const movable = (actor: Actor, filters: JobFilters) =>
    readableJobs(db, actor, filters)
      .leftJoin('documents as d', (join) => join.on('d.id', 'jobs.documentId').onNull('d.deletedAt'))
      .leftJoin('chats as c', 'c.id', 'jobs.chatId')
      .select([
        'jobs.*',
        'd.createdBy as documentOwnerId',
        'd.acl as documentAcl',
        'd.generation as newestGeneration',
        'c.createdBy as chatOwnerId',
      ]);

  return {
    async find(actor: Actor, id: string): Promise<MovableJob | undefined> {
      return firstRow(db, movableJob, movable(actor, {}).where('jobs.id', id));
    },

    /** Those that stopped short of success, in the order of their ids. */
    async listStopped(
      actor: Actor,
      filters: JobFilters,
      page: { after: string; limit: number },
    ): Promise<MovableJob[]> {
      const stopped = movable(actor, filters)
        .whereIn('jobs.status', ['failed', 'cancelled', 'parked'])
        .where('jobs.id', '>', page.after)
        .orderBy('jobs.id')
        .limit(page.limit);
      return rows(db, movableJob, stopped);
    },

    /**
     * Asks for what has stopped to be dispatched: a closed job as another attempt, a parked one to go on. Leaves alone
     * what somebody else has set going meanwhile.
     * @param how.graceSeconds keeps the sweeper away while the request dispatches it
     * @returns how many there were
     */
    async queueAgain(ids: readonly string[], how: { bulk: boolean; graceSeconds: number }): Promise<number> {
      const parked = await rows(
        db,
        queued,
        `update jobs set
           dispatched_at = null, dispatch_after = now() + make_interval(secs => :graceSeconds), updated_at = now()
         where id = any (:ids) and status = 'parked'
         returning id`,
        { ids: [...ids], graceSeconds: how.graceSeconds },
      );
      const closed = await rows(
        db,
        queued,
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

    /** Of the attempt that was asked to stop, while it is the present one: nobody counts on it any more. */
    async noteCancellation({ id, startId }: Pick<Job, 'id' | 'startId'>): Promise<void> {
      await JobModel.query(db)
        .where({ id, startId })
        .whereNull('cancelRequestedAt')
        .patch({ cancelRequestedAt: db.fn.now() });
    },

    /** Closes a job that the engine has not heard of. */
    async cancelUnstarted(id: string): Promise<void> {
      const now = db.fn.now();
      await JobModel.query(db)
        .where({ id, status: 'queued' })
        .whereNull('dispatchedAt')
        .patch({ status: 'cancelled', finishedAt: now, updatedAt: now });
    },
  };
}
