import type { JobStatus } from '#src/contracts/jobs.ts';
import type { JobGroup, JobSummary } from './jobs.model.ts';

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
