import { expect } from 'chai';
import { summarizeJobTotals } from '#src/modules/jobs/job-requests.service.ts';
import type { JobTotals } from '#src/modules/jobs/jobs.model.ts';

describe('summaryOf', () => {
  const group = (part: Partial<JobTotals>): JobTotals => ({
    ...{ status: 'running', unit: 'chunks', jobs: 1, done: 0, total: 0, unknown: 0 },
    ...part,
  });

  it('is zero without jobs', () => {
    expect(summarizeJobTotals([])).deep.equal({
      ...{ queued: 0, running: 0, parked: 0, succeeded: 0, failed: 0, cancelled: 0, total: 0 },
      progress: { done: 0, total: null, unit: null },
    });
  });

  it('adds up the progress of jobs with the same unit', () => {
    const summary = summarizeJobTotals([
      group({ jobs: 2, done: 5, total: 20 }),
      group({ status: 'succeeded', jobs: 3, done: 9, total: 9 }),
      group({ status: 'failed', unit: null }),
    ]);
    expect(summary).include({ running: 2, succeeded: 3, failed: 1, queued: 0, total: 6 });
    expect(summary.progress).deep.equal({ done: 14, total: 29, unit: 'chunks' });
  });

  it('has no total while one job has no known total', () => {
    const { progress } = summarizeJobTotals([
      group({ done: 3, total: 7 }),
      group({ status: 'queued', unit: null, jobs: 4, unknown: 4 }),
    ]);
    expect(progress).deep.equal({ done: 3, total: null, unit: 'chunks' });
  });

  it('has no unit if the jobs count in different units', () => {
    const { progress } = summarizeJobTotals([group({ done: 3, total: 7 }), group({ unit: 'round', done: 2 })]);
    expect(progress).deep.equal({ done: 0, total: null, unit: null });
  });
});
