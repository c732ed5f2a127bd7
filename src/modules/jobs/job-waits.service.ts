import { setTimeout as delay } from 'node:timers/promises';
import { appError } from '#src/errors.ts';
import type { Job, JobsService } from './jobs.service.ts';

/** Small ones are over soon; nobody notices half a second of the others. */
const FIRST_POLL_MS = 50;
const SLOWEST_POLL_MS = 500;

export type JobWaitsService = ReturnType<typeof createJobWaitsService>;

/** Waits for jobs in place of clients that do not want to ask again and again. */
export function createJobWaitsService({ jobs }: { jobs: Pick<JobsService, 'find'> }) {
  const closing = new AbortController();

  return {
    /**
     * The job once it is over, or as it is when the time is up, or when the process is about to end. `left` aborts when
     * nobody listens any more; the work goes on all the same.
     */
    async untilOver(jobId: string, seconds: number, left: AbortSignal): Promise<Job> {
      const endMs = performance.now() + seconds * 1_000;
      const signal = AbortSignal.any([left, closing.signal]);
      for (let pollMs = FIRST_POLL_MS; ; pollMs = Math.min(SLOWEST_POLL_MS, pollMs * 1.5)) {
        const job = await jobs.find(jobId);
        if (job === undefined) throw appError('job_not_found');
        const leftMs = endMs - performance.now();
        if (job.finishedAt !== null || leftMs <= 0 || signal.aborted) return job;
        await delay(Math.min(pollMs, leftMs), undefined, { signal }).catch(() => undefined);
      }
    },

    /** Answers everybody who waits, before the process ends. */
    endWaits(): void {
      closing.abort();
    },
  };
}
