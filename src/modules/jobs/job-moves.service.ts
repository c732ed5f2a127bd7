import type { Knex } from 'knex';
import { unstoppableKinds } from '#src/contracts/jobs.ts';
import { parseJobId } from '#src/contracts/workflow-ids.ts';
import { can } from '#src/domain/access/policy.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError, type ErrorCode } from '#src/errors.ts';
import type { Orchestrator } from '#src/ports/orchestrator.ts';
import { createJobMovesRepository, type MovableJob } from './job-moves.repository.ts';
import { type JobView, viewOf } from './job-view.ts';
import type { JobFilters } from './jobs.model.ts';
import type { JobsService } from './jobs.service.ts';

const BATCH = 1_000;

export type JobMovesService = ReturnType<typeof createJobMovesService>;

/**
 * What people do to jobs. Who may read a job may see it here, too; who may change what it works on may move it. The id
 * of a part stands for its whole run. Each throws `job_not_found` and `forbidden`.
 */
export function createJobMovesService(deps: {
  db: Knex;
  orchestrator: Pick<Orchestrator, 'skipParked' | 'cancel'>;
  jobs: Pick<JobsService, 'get' | 'retry' | 'dispatch'>;
}) {
  const { orchestrator, jobs } = deps;
  const moves = createJobMovesRepository(deps.db);

  async function findMovable(actor: Actor, jobId: string): Promise<MovableJob> {
    const { workflowId, part } = parseJobId(jobId);
    const job = await moves.find(actor, workflowId);
    if (job === undefined || viewOf(job, part, null) === undefined) throw appError('job_not_found');
    if (!mayMove(actor, job)) throw appError('forbidden', { detail: 'You may not change what this job works on.' });
    return job;
  }

  return {
    /**
     * Sets a job going again where it stopped. Accepted also while the engine is away. Throws `job_open`,
     * `job_finished`, and for what is not worth repeating `superseded` or `document_deleted`.
     */
    async retry(actor: Actor, jobId: string): Promise<JobView> {
      const job = await findMovable(actor, jobId);
      const obstacle = obstacleToRetry(job);
      if (obstacle !== undefined) throw appError(obstacle);
      if (!(await jobs.retry(deps.db, job.id))) throw appError('job_open');
      await jobs.dispatch(job.id);
      return jobs.get(actor, jobId);
    },

    /** The same, after all that somebody waits for, for all that match and that the caller may move. */
    async retryMatching(actor: Actor, filters: JobFilters): Promise<number> {
      let count = 0;
      let after = '';
      for (;;) {
        const stopped = await moves.listStopped(actor, filters, { after, limit: BATCH });
        const ids = stopped.filter((job) => mayMove(actor, job) && obstacleToRetry(job) === undefined);
        count += await moves.queueAgain(
          ids.map((job) => job.id),
          { bulk: true, graceSeconds: 0 },
        );
        const last = stopped.at(-1);
        if (last === undefined || stopped.length < BATCH) return count;
        after = last.id;
      }
    },

    /** Ends a parked job as failed. Throws `job_not_parked`, and `service_unavailable` while the engine is away. */
    async skip(actor: Actor, jobId: string): Promise<JobView> {
      const job = await findMovable(actor, jobId);
      if (job.status !== 'parked') throw appError('job_not_parked');
      if (unstoppableKinds.includes(job.kind)) throw appError('deletion_is_final');
      if ((await orchestrator.skipParked(job.id)) !== 'moved') throw appError('job_not_parked');
      return jobs.get(actor, jobId);
    },

    /** Asks the run to stop. Throws `job_finished`, and `service_unavailable` while the engine is away. */
    async cancel(actor: Actor, jobId: string): Promise<JobView> {
      const job = await findMovable(actor, jobId);
      if (job.finishedAt !== null) throw appError('job_finished');
      if (unstoppableKinds.includes(job.kind)) throw appError('deletion_is_final');
      // Only a run can be cancelled for good: one that starts in this moment elsewhere would not hear of it.
      if (job.dispatchedAt === null) await jobs.dispatch(job.id);
      await orchestrator.cancel(job.id);
      await moves.noteCancellation(job);
      // The engine is there and has not taken it: the run of the last attempt is closing, or its start is refused.
      await moves.cancelUnstarted(job.id);
      return jobs.get(actor, jobId);
    },
  };
}

function mayMove(actor: Actor, job: MovableJob): boolean {
  const createdBy = job.chatOwnerId ?? job.documentOwnerId ?? job.createdBy;
  return can(actor, 'job:write', { ...job, createdBy, acl: job.documentAcl ?? job.acl });
}

function obstacleToRetry({ status, start, newestGeneration }: MovableJob): ErrorCode | undefined {
  if (status === 'queued' || status === 'running') return 'job_open';
  if (status === 'succeeded') return 'job_finished';
  if (start.workflow !== 'ingestDocument') return undefined;
  if (newestGeneration === null) return 'document_deleted';
  return start.input.generation === newestGeneration ? undefined : 'superseded';
}
