import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { parseJobId } from '#src/contracts/workflow-ids.ts';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import { isJobFinished, type JobView, toJobView } from './job-requests.service.ts';
import type { Job, WatchedJob } from './jobs.model.ts';
import type { JobsService } from './jobs.service.ts';
import { RELOAD_ACTORS_INTERVAL_MS, reloadActors, type WatchingUser } from './watching-users.ts';

const POLL_INTERVAL_MS = 500;
/** Poll interval in the first second of a new watcher: short, because small jobs end soon. */
const FIRST_POLL_INTERVAL_MS = 50;
const FIRST_POLLS = 20;

/** The right of `actor` to read the job is checked at each poll; null if the caller has checked it. */
type Watcher = WatchingUser & { jobId: string; polls: number; onPoll: (job: WatchedJob | undefined) => void };

export type JobWatchService = ReturnType<typeof createJobWatchService>;

/**
 * Lets clients wait for changes of jobs instead of polling. For all watchers together, a process sends one query for
 * jobs every half second (more often while a watcher is new) and one for the watchers' accounts every two seconds.
 */
export function createJobWatchService(deps: {
  jobs: Pick<JobsService, 'find' | 'findWatched'>;
  /** Returns the current rights of users; leaves out users whose account is no longer active. */
  findActors: (userIds: readonly string[]) => Promise<Actor[]>;
  logger: Pick<Logger, 'warn'>;
}) {
  const { jobs, findActors, logger } = deps;
  const watchers = new Set<Watcher>();
  const closing = new AbortController();
  let pause: AbortController | undefined;
  let isPolling = false;

  async function poll(asked: readonly Watcher[]): Promise<void> {
    for (const watcher of asked) watcher.polls += 1;
    const found = await jobs.findWatched([...new Set(asked.map(({ jobId }) => jobId))]);
    const byId = new Map(found.map((job) => [job.id, job]));
    for (const watcher of asked) watcher.onPoll(byId.get(watcher.jobId));
  }

  async function pollUntilIdle(): Promise<void> {
    isPolling = true;
    let polledAllMs = 0;
    let reloadedActorsMs = performance.now();
    let isOutage = false;
    while (watchers.size > 0) {
      const nowMs = performance.now();
      const isPollOfAll = nowMs - polledAllMs >= POLL_INTERVAL_MS;
      try {
        if (nowMs - reloadedActorsMs >= RELOAD_ACTORS_INTERVAL_MS) {
          await reloadActors(watchers, findActors);
          reloadedActorsMs = nowMs;
        }
        await poll([...watchers].filter(({ polls }) => isPollOfAll || polls < FIRST_POLLS));
        isOutage = false;
      } catch (error) {
        if (!isOutage) logger.warn({ err: error }, 'reading watched jobs failed, retrying');
        isOutage = true;
      }
      if (isPollOfAll) polledAllMs = nowMs;
      const hasNew = [...watchers].some(({ polls }) => polls < FIRST_POLLS);
      pause = new AbortController();
      const pauseMs = hasNew ? FIRST_POLL_INTERVAL_MS : POLL_INTERVAL_MS;
      await delay(pauseMs, undefined, { signal: pause.signal }).catch(() => undefined);
    }
    isPolling = false;
  }

  function add(watcher: Watcher): void {
    watchers.add(watcher);
    if (isPolling) pause?.abort();
    else void pollUntilIdle();
  }

  return {
    /**
     * Yields the job, or one of its parts, now and after each change, until it is over or `signal` aborts. Throws
     * `job_not_found` or `invalid_token` as soon as the caller loses access.
     */
    async *watch(actor: Actor, first: JobView, signal: AbortSignal): AsyncGenerator<JobView> {
      yield first;
      if (isJobFinished(first)) return;
      const { workflowId, part } = parseJobId(first.id);
      const { temporalUiUrl } = first;
      let sent = stateOf(first);
      let news: JobView | undefined;
      let refusal: Error | undefined;
      let { promise: woken, resolve: wake } = Promise.withResolvers<void>();
      const watcher: Watcher = {
        jobId: workflowId,
        actor,
        polls: 0,
        onPoll(job) {
          const view =
            job !== undefined && watcher.actor !== null && mayPerformAction(watcher.actor, 'job:read', job)
              ? toJobView(job, part, temporalUiUrl)
              : undefined;
          if (view === undefined) refusal = appError('job_not_found');
          else if (stateOf(view) !== sent) news = view;
          if (view === undefined || news !== undefined) wake();
        },
        onAccountGone() {
          refusal = appError('invalid_token', { detail: 'The account is not active any more.' });
          wake();
        },
      };
      const onAbort = () => wake();
      signal.addEventListener('abort', onAbort);
      add(watcher);
      try {
        while (!signal.aborted) {
          await woken;
          ({ promise: woken, resolve: wake } = Promise.withResolvers<void>());
          if (refusal !== undefined) throw refusal;
          if (news === undefined) continue;
          const job = news;
          news = undefined;
          sent = stateOf(job);
          yield job;
          if (isJobFinished(job)) return;
        }
      } finally {
        watchers.delete(watcher);
        signal.removeEventListener('abort', onAbort);
      }
    },

    /**
     * Waits until the job is over, the timeout expires, the process shuts down or `disconnected` aborts. The end of the
     * wait never stops the job.
     * @returns the job as it is then
     */
    async untilOver(jobId: string, seconds: number, disconnected: AbortSignal): Promise<Job> {
      const timeout = AbortSignal.timeout(seconds * 1_000);
      const signal = AbortSignal.any([disconnected, closing.signal, timeout]);
      const { promise: over, resolve } = Promise.withResolvers<void>();
      const onPoll = (job: WatchedJob | undefined) => {
        if (job === undefined || isJobFinished(job)) resolve();
      };
      const watcher: Watcher = { jobId, actor: null, polls: 0, onPoll, onAccountGone: () => undefined };
      signal.addEventListener('abort', () => resolve());
      if (!signal.aborted) {
        add(watcher);
        await over.finally(() => watchers.delete(watcher));
      }
      const job = await jobs.find(jobId);
      if (job === undefined) throw appError('job_not_found');
      return job;
    },

    endWaits(): void {
      closing.abort();
    },
  };
}

function stateOf(job: JobView): string {
  const { status, stage, progressDone, progressTotal, attempt, errorCode, errorMessage } = job;
  return JSON.stringify([status, stage, progressDone, progressTotal, attempt, errorCode, errorMessage]);
}
