import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { parseJobId } from '#src/contracts/workflow-ids.ts';
import { can } from '#src/domain/access/policy.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import { isOver, type JobView, viewOf } from './job-view.ts';
import type { Job, WatchedJob } from './jobs.model.ts';
import type { JobsService } from './jobs.service.ts';

const POLL_INTERVAL_MS = 500;
/** Small jobs are over soon: a new watcher looks this often, for a second. */
const FIRST_POLL_INTERVAL_MS = 50;
const FIRST_POLLS = 20;
/** As often as every request does. */
const CHECK_ACTORS_INTERVAL_MS = 2_000;

type Watcher = {
  jobId: string;
  /** Whose rights to read the job are checked at each look; null where the caller has checked them. */
  actor: Actor | null;
  polls: number;
  /** Called at each look, with undefined for a job that does not exist any more. */
  onLook: (job: WatchedJob | undefined) => void;
  onAccountGone: () => void;
};

export type JobWatch = ReturnType<typeof createJobWatch>;

/**
 * Watches jobs for clients that would otherwise poll. However many clients watch, this process sends one query at a time
 * for all their jobs, every half second (more often for a second while there are new ones), and one for all their
 * accounts every two seconds.
 */
export function createJobWatch(deps: {
  jobs: Pick<JobsService, 'find' | 'findWatched'>;
  /** The users as they are now, without those whose account is not active any more. */
  findActors: (userIds: readonly string[]) => Promise<Actor[]>;
  logger: Pick<Logger, 'warn'>;
}) {
  const { jobs, findActors, logger } = deps;
  const watchers = new Set<Watcher>();
  const closing = new AbortController();
  let pause: AbortController | undefined;
  let isLooking = false;

  async function look(asked: readonly Watcher[]): Promise<void> {
    for (const watcher of asked) watcher.polls += 1;
    const found = await jobs.findWatched([...new Set(asked.map(({ jobId }) => jobId))]);
    const byId = new Map(found.map((job) => [job.id, job]));
    for (const watcher of asked) watcher.onLook(byId.get(watcher.jobId));
  }

  async function renewActors(): Promise<void> {
    const userIds = [...watchers].flatMap(({ actor }) => actor?.userId ?? []);
    if (userIds.length === 0) return;
    const found = new Map((await findActors([...new Set(userIds)])).map((actor) => [actor.userId, actor]));
    for (const watcher of watchers) {
      if (watcher.actor === null) continue;
      const actor = found.get(watcher.actor.userId);
      if (actor !== undefined) watcher.actor = actor;
      // The query did not ask about a watcher that was added while it ran.
      else if (userIds.includes(watcher.actor.userId)) watcher.onAccountGone();
    }
  }

  async function lookOn(): Promise<void> {
    isLooking = true;
    let lookedAtAllMs = 0;
    let checkedActorsMs = performance.now();
    let isOutage = false;
    while (watchers.size > 0) {
      const nowMs = performance.now();
      const isTurnOfAll = nowMs - lookedAtAllMs >= POLL_INTERVAL_MS;
      try {
        if (nowMs - checkedActorsMs >= CHECK_ACTORS_INTERVAL_MS) {
          await renewActors();
          checkedActorsMs = nowMs;
        }
        await look([...watchers].filter(({ polls }) => isTurnOfAll || polls < FIRST_POLLS));
        isOutage = false;
      } catch (error) {
        if (!isOutage) logger.warn({ err: error }, 'watched jobs cannot be read; trying on');
        isOutage = true;
      }
      if (isTurnOfAll) lookedAtAllMs = nowMs;
      const hasNew = [...watchers].some(({ polls }) => polls < FIRST_POLLS);
      pause = new AbortController();
      const pauseMs = hasNew ? FIRST_POLL_INTERVAL_MS : POLL_INTERVAL_MS;
      await delay(pauseMs, undefined, { signal: pause.signal }).catch(() => undefined);
    }
    isLooking = false;
  }

  function add(watcher: Watcher): void {
    watchers.add(watcher);
    if (isLooking) pause?.abort();
    else void lookOn();
  }

  return {
    /**
     * The job, or part of one, as it was found and after each change, until it is over or `signal` aborts. What the
     * caller may see is checked all the while: throws `job_not_found` and `invalid_token` as soon as it is not for them.
     */
    async *watch(actor: Actor, first: JobView, signal: AbortSignal): AsyncGenerator<JobView> {
      yield first;
      if (isOver(first)) return;
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
        onLook(job) {
          const view =
            job !== undefined && watcher.actor !== null && can(watcher.actor, 'job:read', job)
              ? viewOf(job, part, temporalUiUrl)
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
          if (isOver(job)) return;
        }
      } finally {
        watchers.delete(watcher);
        signal.removeEventListener('abort', onAbort);
      }
    },

    /**
     * The job once it is over, or as it is when the time is up, or when the process is about to end. `left` aborts when
     * the client has left; the work goes on all the same. Throws `job_not_found`.
     */
    async untilOver(jobId: string, seconds: number, left: AbortSignal): Promise<Job> {
      const timeUp = AbortSignal.timeout(seconds * 1_000);
      const signal = AbortSignal.any([left, closing.signal, timeUp]);
      const { promise: over, resolve } = Promise.withResolvers<void>();
      const onLook = (job: WatchedJob | undefined) => {
        if (job === undefined || isOver(job)) resolve();
      };
      const watcher: Watcher = { jobId, actor: null, polls: 0, onLook, onAccountGone: () => undefined };
      signal.addEventListener('abort', () => resolve());
      if (!signal.aborted) {
        add(watcher);
        await over.finally(() => watchers.delete(watcher));
      }
      const job = await jobs.find(jobId);
      if (job === undefined) throw appError('job_not_found');
      return job;
    },

    /** Answers all who wait, before the process ends. */
    endWaits(): void {
      closing.abort();
    },
  };
}

/** What a client can see changing. */
function stateOf(job: JobView): string {
  const { status, stage, progressDone, progressTotal, attempt, errorCode, errorMessage } = job;
  return JSON.stringify([status, stage, progressDone, progressTotal, attempt, errorCode, errorMessage]);
}
