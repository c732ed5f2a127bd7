import type { Knex } from 'knex';
import type { Logger } from 'pino';
import { type JobStatus, unstoppableKinds } from '#src/contracts/jobs.ts';
import type { ListPosition } from '#src/contracts/request-data.ts';
import { parseJobId } from '#src/contracts/workflow-ids.ts';
import type { AttemptOfJob } from '#src/contracts/workflow-runs.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { AppError, appError } from '#src/errors.ts';
import type { Orchestrator } from '#src/ports/orchestrator.ts';
import type { Tracing } from '#src/ports/telemetry.ts';
import { createJobMovesRepository } from './job-moves.repository.ts';
import { createJobStatisticsRepository, createJobSummaryRepository } from './job-statistics.repository.ts';
import { type JobView, viewOf } from './job-view.ts';
import type {
  EndedJob,
  Job,
  JobChange,
  JobError,
  JobFilters,
  JobGroup,
  JobSummary,
  NewJob,
  OpenRunsOf,
  WatchedJob,
} from './jobs.model.ts';
import { createJobsRepository } from './jobs.repository.ts';

/** A job that counts nothing yet is as far as 0 of what it will tell, so that the total waits for it. */
export function summaryOf(groups: readonly JobGroup[]): JobSummary {
  const sum = (fact: (group: JobGroup) => number) => groups.reduce((total, group) => total + fact(group), 0);
  const units = new Set(groups.flatMap(({ unit }) => unit ?? []));
  const [unit = null] = units.size === 1 ? units : [];
  const counts: Record<JobStatus, number> = { queued: 0, running: 0, parked: 0, succeeded: 0, failed: 0, cancelled: 0 };
  for (const { status, jobs } of groups) counts[status] += jobs;
  const isKnown = unit !== null && sum(({ unknown }) => unknown) === 0;
  return {
    ...counts,
    total: sum(({ jobs }) => jobs),
    progress: {
      done: unit === null ? 0 : sum(({ done }) => done),
      total: isKnown ? sum(({ total }) => total) : null,
      unit,
    },
  };
}

/** The request that wrote a job starts it right after its commit; the sweeper comes after this. */
const DISPATCH_GRACE_SECONDS = 1;
/** Between two attempts of the sweeper at one job. A start may make two calls of two seconds; begun twice it is one. */
const DISPATCH_LEASE_SECONDS = 2;
const DISPATCH_BATCH = 50;
/** Rows of one statement. */
const ENQUEUED_AT_ONCE = 1_000;
/** A run that was closed from outside shows in its job within a minute: this, a turn of the sweeper, and reserve. */
const CHECK_AFTER_SECONDS = 30;
const CHECK_BATCH = 20;
/** Of a sweep, for others wait for it. */
const TURN_MS = 1_000;

export type { EndedJob, Job, JobChange } from './jobs.model.ts';

export type JobsService = ReturnType<typeof createJobsService>;

/** Jobs are the truth about asynchronous work for clients, and the outbox of workflow starts. */
export function createJobsService(deps: {
  db: Knex;
  orchestrator: Pick<Orchestrator, 'start' | 'retryParked' | 'inspect' | 'uiUrl'>;
  tracing?: Pick<Tracing, 'traceparent' | 'within'>;
  logger: Pick<Logger, 'warn' | 'error'>;
  /** How long a step of the sweeper begins with more. */
  turnMs?: number;
}) {
  const { db, orchestrator, tracing, logger, turnMs = TURN_MS } = deps;
  const jobs = createJobsRepository(db);
  const moves = createJobMovesRepository(db);

  /** What the engine refuses it goes on refusing, and whoever waits should see why. */
  async function start(job: Job): Promise<void> {
    try {
      await (job.status === 'parked' ? resume(job) : begin(job));
    } catch (error) {
      if (isRefusal(error)) await jobs.noteObstacle(job, { code: error.code, message: error.message });
      throw error;
    }
  }

  async function begin(job: Job): Promise<void> {
    const { traceparent } = job.start;
    const run = () => orchestrator.start(startOf(job));
    const answer = await (tracing === undefined ? run() : tracing.within(traceparent, run));
    // The sweeper asks again until the run of the last attempt has closed.
    if (answer === 'started') await jobs.markDispatched(job);
  }

  /** What is written now belongs to the trace of who writes it. */
  function traced(job: NewJob): NewJob {
    const traceparent = tracing?.traceparent();
    return traceparent === undefined ? job : { ...job, start: { ...job.start, traceparent } };
  }

  /** A parked job is dispatched again when it shall go on. */
  async function resume(job: Job): Promise<void> {
    const result = await orchestrator.retryParked(job.id);
    await jobs.markDispatched(job);
    if (result !== 'gone') return;
    await reconcile(job);
    // It was to go on, and not to be found failed.
    await moves.queueAgain([job.id], { bulk: job.start.bulk ?? false, graceSeconds: 0 });
  }

  /** Brings a job in line with a run that was closed, or lost, or has stopped behind our back. */
  async function reconcile(job: Job): Promise<void> {
    const { startId } = job;
    const run = await orchestrator.inspect(job.id);
    // In the Temporal UI, or with its CLI. A deletion is not to be stopped, and goes on.
    if (run.toStop !== undefined && !unstoppableKinds.includes(job.kind)) {
      await moves.noteCancellation({ id: job.id, startId: run.toStop });
    }
    switch (run.state) {
      case 'open':
        return;
      case 'parked':
        return jobs.noteParked(job, run.error);
      case 'stuck':
        return jobs.noteObstacle(job, run.error);
      case 'unknown':
        return jobs.requeue(job);
      case 'completed':
        if (!(await jobs.isDone(job))) return jobs.requeue(job);
        return jobs.advance(job.id, { status: 'succeeded' }, { startId });
      case 'cancelled':
        // A round that came while the run was closing has nudged it in vain.
        if (job.kind === 'alignment' && job.status === 'queued') return jobs.requeue(job);
        return jobs.advance(job.id, { status: 'cancelled' }, { startId });
      case 'failed':
        return jobs.advance(job.id, { status: 'failed', error: run.error }, { startId });
    }
  }

  return {
    /** Writes a job beside the business row, in its transaction. A reused id is queued again as another attempt. */
    async enqueue(trx: Knex, job: NewJob): Promise<void> {
      await createJobsRepository(trx).enqueue([traced(job)], DISPATCH_GRACE_SECONDS);
    },

    /** The same with many of different ids, which the sweeper starts. */
    async enqueueAll(trx: Knex, all: readonly NewJob[]): Promise<void> {
      const repository = createJobsRepository(trx);
      for (let start = 0; start < all.length; start += ENQUEUED_AT_ONCE) {
        await repository.enqueue(all.slice(start, start + ENQUEUED_AT_ONCE).map(traced), 0);
      }
    },

    /**
     * Sets a job going again that has stopped short of success, in its caller's transaction: a parked one goes on, a
     * closed one is another attempt. @returns false when it goes already, or has succeeded
     */
    async retry(trx: Knex, jobId: string): Promise<boolean> {
      const how = { bulk: false, graceSeconds: DISPATCH_GRACE_SECONDS };
      return (await createJobMovesRepository(trx).queueAgain([jobId], how)) > 0;
    },

    /** To be called after the commit. Never throws: what could not be started is left to the sweeper. */
    async dispatch(jobId: string): Promise<void> {
      try {
        const job = await jobs.findUndispatched(jobId);
        if (job !== undefined) await start(job);
      } catch (error) {
        logger[isRefusal(error) ? 'error' : 'warn']({ err: error, jobId }, 'a job waits for the sweeper to start it');
      }
    },

    /** A step of the sweeper: starts what no request could start, and all that were asked for in bulk. */
    async dispatchPending(): Promise<void> {
      const endMs = performance.now() + turnMs;
      for (;;) {
        const pending = await jobs.claimUndispatched(DISPATCH_BATCH, DISPATCH_LEASE_SECONDS);
        const failed = await settle(pending, start, 'jobs could not be started');
        if (pending.length < DISPATCH_BATCH || failed > 0 || performance.now() > endMs) return;
      }
    },

    /** A step of the sweeper: looks after open jobs whose run may have been closed behind our back. */
    async reconcileOpen(): Promise<void> {
      const endMs = performance.now() + turnMs;
      for (;;) {
        const open = await jobs.claimUnchecked(CHECK_BATCH, CHECK_AFTER_SECONDS);
        const failed = await settle(open, reconcile, 'runs could not be looked at');
        if (open.length < CHECK_BATCH || failed > 0 || performance.now() > endMs) return;
      }
    },

    /** Ids of the jobs that work, or wait to work: those of a kind on a document, or all of a connection. */
    async openRunsOf(trx: Knex, of: OpenRunsOf): Promise<string[]> {
      return createJobsRepository(trx).listOpenIds(of);
    },

    /** Held until the end of the transaction, so that nobody begins it meanwhile. */
    async isOpen(trx: Knex, jobId: string): Promise<boolean> {
      return createJobsRepository(trx).isOpen(jobId);
    },

    /** Those of the jobs that are over. */
    async listEnded(jobIds: readonly string[]): Promise<EndedJob[]> {
      return jobs.listEnded(jobIds);
    },

    /**
     * What a step of the work says about its job. Repeating it changes nothing.
     * @param of where it says so, a job that is closed or on its next attempt stays as it is
     */
    async advance(jobId: string, change: JobChange, of?: AttemptOfJob): Promise<void> {
      await jobs.advance(jobId, change, of);
    },

    /** Of a run that others nudge: what they have queued since it began waits for another one. */
    async recordCancellationOfNudged(jobId: string, startId: string | undefined): Promise<void> {
      await jobs.cancelUnlessQueuedSince(jobId, startId);
    },

    /** Says in a job why its step is being tried again. It is forgotten when the job gets on. */
    async noteFault(jobId: string, error: JobError): Promise<void> {
      await jobs.noteFault(jobId, error);
    },

    /** The same together with what else the step writes. */
    async advanceWithin(trx: Knex, jobId: string, change: JobChange, of?: AttemptOfJob): Promise<void> {
      await createJobsRepository(trx).advance(jobId, change, of);
    },

    /** Newest first. */
    async list(
      actor: Actor,
      filters: JobFilters,
      page: { limit: number; after: ListPosition | null },
    ): Promise<{ items: JobView[]; last: ListPosition | null }> {
      const { items, last } = await jobs.listReadable(actor, filters, page);
      return { items: items.map((job) => ({ ...job, temporalUiUrl: orchestrator.uiUrl(job.id) })), last };
    },

    /** Of the ingestions of a document the newest counts, so that one begun again is not counted twice. */
    async summarize(actor: Actor, filters: JobFilters): Promise<JobSummary> {
      return summaryOf(await createJobSummaryRepository(db).groups(actor, filters));
    },

    /** How much is open, and what has to be started: for those who watch the service. */
    statistics: () => createJobStatisticsRepository(db).read(),

    /** For operators, whatever it works on. */
    async find(jobId: string): Promise<Job | undefined> {
      return jobs.find(jobId);
    },

    /** Those of the jobs that exist; rights are the caller's to check. */
    findWatched: (jobIds: readonly string[]): Promise<WatchedJob[]> => jobs.findWatched(jobIds),

    /** A job, or a part of one (`….chunk`). Throws `job_not_found`. */
    async get(actor: Actor, jobId: string): Promise<JobView> {
      const { workflowId, part } = parseJobId(jobId);
      const job = await jobs.findReadable(actor, workflowId);
      const view = job === undefined ? undefined : viewOf(job, part, orchestrator.uiUrl(job.id));
      if (view === undefined) throw appError('job_not_found');
      return view;
    },
  };

  /** Does all; one line says how many failed and why, refusals first. */
  async function settle<T>(items: T[], work: (item: T) => Promise<void>, message: string): Promise<number> {
    const failures = (await Promise.allSettled(items.map(work))).filter((result) => result.status === 'rejected');
    const reasons = failures.map((failure) => failure.reason as unknown);
    const worst = reasons.find(isRefusal) ?? reasons[0];
    if (reasons.length > 0) {
      logger[isRefusal(worst) ? 'error' : 'warn']({ err: worst, count: reasons.length }, message);
    }
    return reasons.length;
  }
}

function startOf(job: Job): Parameters<Orchestrator['start']>[0] {
  return {
    workflowId: job.id,
    start: job.start,
    startId: job.startId,
    attempt: job.attempt,
    attributes: {
      orgId: job.orgId,
      ...(job.documentId !== null && { documentId: job.documentId }),
      ...(job.connectionId !== null && { connectionId: job.connectionId }),
      ...(job.chatId !== null && { chatId: job.chatId }),
      ...(job.agentId !== null && { agentId: job.agentId }),
    },
    requestId: job.requestId,
  };
}

function isRefusal(error: unknown): error is AppError {
  return error instanceof AppError && error.code !== 'service_unavailable';
}
