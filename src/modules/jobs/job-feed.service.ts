import { setTimeout as delay } from 'node:timers/promises';
import type { Knex } from 'knex';
import type { Logger } from 'pino';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { Orchestrator } from '#src/ports/orchestrator.ts';
import { createJobReadsRepository } from './job-reads.repository.ts';
import { type JobView, toJobView } from './job-requests.service.ts';
import type { ChangedJob, JobChangePosition } from './jobs.model.ts';
import { RELOAD_ACTORS_INTERVAL_MS, reloadActors, type WatchingUser } from './watching-users.ts';

const POLL_INTERVAL_MS = 500;
const PAGE_SIZE = 500;
/** Maximum number of open jobs that a stream starts with: the newest. */
const MAX_OPEN_JOBS = 1_000;
/** A client that is further behind than this loses its stream, and reads on from its last event. */
const MAX_PENDING_JOBS = 5_000;
/** Every read begins this much before the last change that was read: a change is visible only after its commit. */
const COMMIT_DELAY_US = 2_000_000;
/** Age up to which the stream resumes after an event; after an older event it starts anew. */
const RESUMABLE_US = 24 * 3_600 * 1_000_000;

type Subscriber = WatchingUser & {
  actor: Actor;
  /** The newest state of each changed job, in the order of the changes. */
  pending: Map<string, ChangedJob>;
  wake: () => void;
};

/** `position` is the number to resume after; `job` is null for the event after the jobs that a stream starts with. */
export type JobFeedEvent = { position: number; job: JobView | null };

export type JobFeedService = ReturnType<typeof createJobFeedService>;

/**
 * Reports the changes of all jobs that a user may read. For all subscribers together, a process sends one query for
 * changed jobs every half second and one for the subscribers' rights every two seconds.
 */
export function createJobFeedService(deps: {
  db: Knex;
  orchestrator: Pick<Orchestrator, 'uiUrl'>;
  findActors: (userIds: readonly string[]) => Promise<Actor[]>;
  logger: Pick<Logger, 'warn'>;
}) {
  const { db, orchestrator, findActors, logger } = deps;
  const jobs = createJobReadsRepository(db);
  const subscribers = new Set<Subscriber>();
  let isPolling = false;

  async function pollUntilIdle(): Promise<void> {
    isPolling = true;
    let reader: ReturnType<typeof createChangeReader> | undefined;
    let reloadedActorsMs = performance.now();
    let isOutage = false;
    while (subscribers.size > 0) {
      let isBehind = false;
      try {
        if (performance.now() - reloadedActorsMs >= RELOAD_ACTORS_INTERVAL_MS) {
          await reloadActors(subscribers, findActors);
          reloadedActorsMs = performance.now();
        }
        reader ??= createChangeReader(await jobs.clock());
        isBehind = await reader.read();
        isOutage = false;
      } catch (error) {
        if (!isOutage) logger.warn({ err: error }, 'reading changed jobs failed, retrying');
        isOutage = true;
      }
      if (!isBehind) await delay(POLL_INTERVAL_MS);
    }
    isPolling = false;
  }

  function createChangeReader(startUs: number) {
    let newestUs = startUs;
    let from: JobChangePosition = { changedUs: startUs - COMMIT_DELAY_US, id: '' };
    /** Jobs that were read within the commit delay, with their last change, because they are read again. */
    const known = new Map<string, number>();

    return {
      /** Reads a page of changes and gives it to the subscribers. Returns whether there may be a next page. */
      async read(): Promise<boolean> {
        const orgIds = [...new Set(Array.from(subscribers, ({ actor }) => actor.orgId))];
        const page = await jobs.listChanged(orgIds, from, PAGE_SIZE);
        for (const job of page) {
          if (known.get(job.id) !== job.changedUs) publish(job);
          known.set(job.id, job.changedUs);
          newestUs = Math.max(newestUs, job.changedUs);
        }
        const last = page.length < PAGE_SIZE ? undefined : page.at(-1);
        from = last ?? { changedUs: newestUs - COMMIT_DELAY_US, id: '' };
        for (const [id, changedUs] of known) if (changedUs < newestUs - COMMIT_DELAY_US) known.delete(id);
        return last !== undefined;
      },
    };
  }

  function publish(job: ChangedJob): void {
    for (const { actor, pending, wake } of subscribers) {
      if (!mayPerformAction(actor, 'job:read', job)) continue;
      pending.delete(job.id);
      pending.set(job.id, job);
      wake();
    }
  }

  /** The jobs that a stream starts with, in the order of their changes. */
  async function* startOf(actor: Actor, afterUs: number | null): AsyncGenerator<ChangedJob> {
    if (afterUs === null) {
      const open = await jobs.listReadableOpen(actor, MAX_OPEN_JOBS);
      yield* open.sort((one, other) => one.changedUs - other.changedUs);
      return;
    }
    let from: JobChangePosition | undefined = { changedUs: afterUs - COMMIT_DELAY_US, id: '' };
    while (from !== undefined) {
      const page: ChangedJob[] = await jobs.listReadableChanged(actor, from, PAGE_SIZE);
      yield* page;
      from = page.length < PAGE_SIZE ? undefined : page.at(-1);
    }
  }

  return {
    /**
     * Yields the open jobs, or those that have changed since the event `after`, then an event without a job, and then
     * each job that changes. Ends when `signal` aborts or the client is too slow. Throws `invalid_token` as soon as the
     * account is not active any more.
     */
    async *watchAll(actor: Actor, after: number | null, signal: AbortSignal): AsyncGenerator<JobFeedEvent> {
      let refusal: Error | undefined;
      let { promise: woken, resolve: wake } = Promise.withResolvers<void>();
      const subscriber: Subscriber = {
        actor,
        pending: new Map(),
        wake: () => wake(),
        onAccountGone() {
          refusal = appError('invalid_token', { detail: 'The account is not active any more.' });
          wake();
        },
      };
      const isOver = () => {
        if (refusal !== undefined) throw refusal;
        return signal.aborted || subscriber.pending.size > MAX_PENDING_JOBS;
      };
      const onAbort = () => wake();
      signal.addEventListener('abort', onAbort);
      subscribers.add(subscriber);
      if (!isPolling) void pollUntilIdle();
      try {
        const nowUs = await jobs.clock();
        const isResumable = after !== null && after <= nowUs && after > nowUs - RESUMABLE_US;
        let position = isResumable ? after : 0;
        const eventOf = (job: ChangedJob): JobFeedEvent => {
          position = Math.max(position, job.changedUs);
          return { position, job: toJobView(job, null, orchestrator.uiUrl(job.id)) ?? null };
        };
        const sent = new Map<string, number>();
        for await (const job of startOf(subscriber.actor, isResumable ? after : null)) {
          if (isOver()) return;
          sent.set(job.id, job.changedUs);
          yield eventOf(job);
        }
        position = Math.max(position, nowUs);
        yield { position, job: null };
        while (!isOver()) {
          const [next] = subscriber.pending.values();
          if (next === undefined) {
            await woken;
            ({ promise: woken, resolve: wake } = Promise.withResolvers<void>());
            continue;
          }
          subscriber.pending.delete(next.id);
          if (next.changedUs > (sent.get(next.id) ?? 0)) yield eventOf(next);
        }
      } finally {
        subscribers.delete(subscriber);
        signal.removeEventListener('abort', onAbort);
      }
    },
  };
}
