import type { Knex } from 'knex';
import type { Logger } from 'pino';
import { subjectInSummary, unstoppableJobKinds } from '#src/contracts/jobs.ts';
import type { JobAttempt } from '#src/contracts/workflow-runs.ts';
import { AppError } from '#src/errors.ts';
import type { Orchestrator } from '#src/ports/orchestrator.ts';
import type { Tracing } from '#src/ports/telemetry.ts';
import { createJobReadsRepository } from './job-reads.repository.ts';
import type { EndedJob, Job, JobError, JobUpdate, NewJob, UnfinishedJobsFilter, WatchedJob } from './jobs.model.ts';
import { createJobsRepository, type JobToStart } from './jobs.repository.ts';

/**
 * For this long only the request that queued a job may start it, right after its commit; then the sweeper starts it.
 */
const DISPATCH_GRACE_SECONDS = 1;
/** Time between two attempts of the sweeper to start a job. Starting a job twice has the effect of one start. */
const DISPATCH_LEASE_SECONDS = 2;
const DISPATCH_BATCH = 50;
const ENQUEUE_BATCH = 1_000;
/**
 * Interval of comparing an open job with its workflow run, which may be closed from outside, such as in the Temporal
 * UI.
 */
const CHECK_AFTER_SECONDS = 30;
const CHECK_BATCH = 20;
/** A sweep of jobs starts no further batch after this time, because the other sweeps wait for it. */
const SWEEP_STEP_MS = 1_000;

export type { EndedJob, Job, JobUpdate } from './jobs.model.ts';

export type JobsService = ReturnType<typeof createJobsService>;

/**
 * Jobs show clients the state of background work. Their table is also a transactional outbox: a job is written together
 * with the data that it works on, and its workflow is started after the commit.
 */
export function createJobsService(deps: {
  db: Knex;
  orchestrator: Pick<Orchestrator, 'start' | 'retryParked' | 'inspect'>;
  tracing?: Pick<Tracing, 'traceparent' | 'within'>;
  logger: Pick<Logger, 'warn' | 'error'>;
  sweepStepMs?: number;
}) {
  const { db, orchestrator, tracing, logger, sweepStepMs = SWEEP_STEP_MS } = deps;
  const jobs = createJobsRepository(db);

  /** Starts or resumes a job's run. Records a refusal by Temporal, because further attempts are refused too. */
  async function start(job: JobToStart): Promise<void> {
    try {
      await (job.status === 'parked' ? resume(job) : begin(job));
    } catch (error) {
      if (isRefusal(error)) await jobs.recordBlocker(job, { code: error.code, message: error.message });
      throw error;
    }
  }

  async function begin(job: JobToStart): Promise<void> {
    const { traceparent } = job.start;
    const run = () => orchestrator.start(startOf(job));
    const answer = await (tracing === undefined ? run() : tracing.within(traceparent, run));
    // Until the run of the job's last attempt has closed, the job stays queued; then the sweeper starts it.
    if (answer === 'started') await jobs.markDispatched(job);
  }

  function traced(job: NewJob): NewJob {
    const traceparent = tracing?.traceparent();
    return traceparent === undefined ? job : { ...job, start: { ...job.start, traceparent } };
  }

  async function resume(job: Job): Promise<void> {
    const result = await orchestrator.retryParked(job.id);
    await jobs.markDispatched(job);
    if (result !== 'gone') return;
    await reconcile(job);
    // A parked run that has ended meanwhile cannot resume, so the job starts another attempt.
    await jobs.queueAgain([job.id], { bulk: job.start.bulk ?? false, graceSeconds: 0 });
  }

  /** Updates a job whose run was closed, lost or parked without updating it. */
  async function reconcile(job: Job): Promise<void> {
    const { startId } = job;
    const run = await orchestrator.inspect(job.id);
    // Records a cancellation that was requested in the Temporal UI or CLI, except for deletions, which cannot be
    // cancelled.
    if (run.toStop !== undefined && !unstoppableJobKinds.includes(job.kind)) {
      await jobs.recordCancellationRequest({ id: job.id, startId: run.toStop });
    }
    switch (run.state) {
      case 'open':
        return;
      case 'parked':
        return jobs.recordParked(job, run.error);
      case 'stuck':
        return jobs.recordBlocker(job, run.error);
      case 'unknown':
        return jobs.requeue(job);
      case 'completed':
        if (!(await jobs.isDone(job))) return jobs.requeue(job);
        return jobs.advance(job.id, { status: 'succeeded' }, { startId });
      case 'cancelled':
        // A new round signalled the alignment run while it was closing, so the signal was lost and the job needs
        // another run.
        if (job.kind === 'alignment' && job.status === 'queued') return jobs.requeue(job);
        return jobs.advance(job.id, { status: 'cancelled' }, { startId });
      case 'failed':
        return jobs.advance(job.id, { status: 'failed', error: run.error }, { startId });
    }
  }

  return {
    /**
     * Writes a job in the transaction of the data that it works on. If the job exists, it is queued again as its next
     * attempt.
     */
    async enqueue(trx: Knex, job: NewJob): Promise<void> {
      await createJobsRepository(trx).enqueue([traced(job)], DISPATCH_GRACE_SECONDS);
    },

    async enqueueAll(trx: Knex, all: readonly NewJob[]): Promise<void> {
      const repository = createJobsRepository(trx);
      for (let start = 0; start < all.length; start += ENQUEUE_BATCH) {
        await repository.enqueue(all.slice(start, start + ENQUEUE_BATCH).map(traced), 0);
      }
    },

    /** Queues a failed, cancelled or parked job again. Returns false if it is running or has succeeded. */
    async retry(trx: Knex, jobId: string): Promise<boolean> {
      const how = { bulk: false, graceSeconds: DISPATCH_GRACE_SECONDS };
      return (await createJobsRepository(trx).queueAgain([jobId], how)) > 0;
    },

    /** Starts a job after the commit of its transaction. Never throws: if the start fails, the sweeper repeats it. */
    async dispatch(jobId: string): Promise<void> {
      try {
        const job = await jobs.findUndispatched(jobId);
        if (job !== undefined) await start(job);
      } catch (error) {
        logger[isRefusal(error) ? 'error' : 'warn']({ err: error, jobId }, 'job start failed, left to the sweeper');
      }
    },

    /** Sweep that starts jobs that no request has started, such as those of bulk retries. */
    async dispatchPending(): Promise<void> {
      const endMs = performance.now() + sweepStepMs;
      for (;;) {
        const pending = await jobs.claimUndispatched(DISPATCH_BATCH, DISPATCH_LEASE_SECONDS);
        const failed = await settle(pending, start, 'starting jobs failed');
        if (pending.length < DISPATCH_BATCH || failed > 0 || performance.now() > endMs) return;
      }
    },

    async reconcileOpen(): Promise<void> {
      const endMs = performance.now() + sweepStepMs;
      for (;;) {
        const open = await jobs.claimUnchecked(CHECK_BATCH, CHECK_AFTER_SECONDS);
        const failed = await settle(open, reconcile, 'inspecting workflow runs failed');
        if (open.length < CHECK_BATCH || failed > 0 || performance.now() > endMs) return;
      }
    },

    async openRunsOf(trx: Knex, of: UnfinishedJobsFilter): Promise<string[]> {
      return createJobsRepository(trx).listOpenIds(of);
    },

    /** Returns whether a job is open, and locks it until the transaction ends, so that no process starts it. */
    async isOpen(trx: Knex, jobId: string): Promise<boolean> {
      return createJobsRepository(trx).isOpen(jobId);
    },

    async listEnded(jobIds: readonly string[]): Promise<EndedJob[]> {
      return jobs.listEnded(jobIds);
    },

    /**
     * Records a change that a workflow step reports about its job. Idempotent.
     * @param of the attempt that reports the change: if given, the change is ignored for a closed job and for a later
     * attempt
     */
    async advance(jobId: string, change: JobUpdate, of?: JobAttempt): Promise<void> {
      await jobs.advance(jobId, change, of);
    },

    async advanceWithin(trx: Knex, jobId: string, change: JobUpdate, of?: JobAttempt): Promise<void> {
      await createJobsRepository(trx).advance(jobId, change, of);
    },

    /** Closes the job of a cancelled run, unless a signal has queued more work since that run started. */
    async recordCancellationOfNudged(jobId: string, startId: string | undefined): Promise<void> {
      await jobs.cancelUnlessQueuedSince(jobId, startId);
    },

    async recordRetriedError(jobId: string, error: JobError): Promise<void> {
      await jobs.recordRetriedError(jobId, error);
    },

    statistics: () => jobs.statistics(),

    find: (jobId: string): Promise<Job | undefined> => jobs.find(jobId),

    findWatched: (jobIds: readonly string[]): Promise<WatchedJob[]> => createJobReadsRepository(db).findWatched(jobIds),
  };

  /**
   * Runs `work` for all items. Logs all failures as one line, which shows a refusal by Temporal rather than another
   * error. Returns the number of failures.
   */
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

function startOf(job: JobToStart): Parameters<Orchestrator['start']>[0] {
  return {
    workflowId: job.id,
    start: { ...job.start, summary: summaryOf(job) },
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

/** Maximum length of a name in a summary: Temporal refuses summaries of more than 400 bytes. */
const maxSubjectCharacters = 60;

function summaryOf({ start: { summary }, subject, documentId, chatId, connectionId, agentId }: JobToStart): string {
  const name = (subject ?? documentId ?? chatId ?? connectionId ?? agentId ?? '').replaceAll(/\s+/g, ' ');
  const characters = [...name];
  const isShort = characters.length <= maxSubjectCharacters;
  const shown = isShort ? name : `${characters.slice(0, maxSubjectCharacters).join('')}…`;
  return summary.replace(subjectInSummary, () => shown);
}

function isRefusal(error: unknown): error is AppError {
  return error instanceof AppError && error.code !== 'service_unavailable';
}
