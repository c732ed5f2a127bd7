import { setTimeout as delay } from 'node:timers/promises';
import type { Actor } from '#src/domain/visibility.ts';
import { appError } from '#src/errors.ts';
import { isOver, type JobView } from './job-view.ts';
import type { JobsService } from './jobs.service.ts';

const POLL_INTERVAL_MS = 500;
/** As often as every request does. */
const CHECK_ACTOR_INTERVAL_MS = 2_000;

export type JobWatch = ReturnType<typeof createJobWatch>;

/** Follows jobs for clients that would otherwise ask again and again. */
export function createJobWatch(deps: {
  jobs: Pick<JobsService, 'get'>;
  /** The user as he is now; null when his account is not active any more. */
  findActor: (userId: string) => Promise<Actor | null>;
}) {
  return {
    /**
     * The job, or part of one, as it is now and after each change, until it is over or `signal` aborts. What the caller
     * may see is checked all the while: throws `job_not_found` and `invalid_token` as soon as it is not for him.
     */
    async *watch(actor: Actor, jobId: string, signal: AbortSignal): AsyncGenerator<JobView> {
      let caller = actor;
      let checkedAt = Date.now();
      let last: string | undefined;
      while (!signal.aborted) {
        if (Date.now() - checkedAt >= CHECK_ACTOR_INTERVAL_MS) {
          const found = await deps.findActor(actor.userId);
          if (found === null) throw appError('invalid_token', { detail: 'The account is not active any more.' });
          caller = found;
          checkedAt = Date.now();
        }
        const job = await deps.jobs.get(caller, jobId);
        const state = stateOf(job);
        if (state !== last) yield job;
        last = state;
        if (isOver(job)) return;
        await delay(POLL_INTERVAL_MS, undefined, { signal }).catch(() => undefined);
      }
    },
  };
}

/** What a client can see changing. */
function stateOf(job: JobView): string {
  const { status, stage, progressDone, progressTotal, attempt, errorCode, errorMessage } = job;
  return JSON.stringify([status, stage, progressDone, progressTotal, attempt, errorCode, errorMessage]);
}
