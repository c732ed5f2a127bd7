import { expect } from 'chai';
import type { JobGroup } from '#src/modules/jobs/jobs.model.ts';
import { summaryOf } from '#src/modules/jobs/jobs.service.ts';

describe('summaryOf', () => {
  const group = (part: Partial<JobGroup>): JobGroup => ({
    ...{ status: 'running', unit: 'chunks', jobs: 1, done: 0, total: 0, unknown: 0 },
    ...part,
  });

  it('counts nothing of no jobs', () => {
    expect(summaryOf([])).deep.equal({
      ...{ queued: 0, running: 0, parked: 0, succeeded: 0, failed: 0, cancelled: 0, total: 0 },
      progress: { done: 0, total: null, unit: null },
    });
  });

  it('adds up what counts the same', () => {
    const summary = summaryOf([
      group({ jobs: 2, done: 5, total: 20 }),
      group({ status: 'succeeded', jobs: 3, done: 9, total: 9 }),
      group({ status: 'failed', unit: null }),
    ]);
    expect(summary).include({ running: 2, succeeded: 3, failed: 1, queued: 0, total: 6 });
    expect(summary.progress).deep.equal({ done: 14, total: 29, unit: 'chunks' });
  });

  it('knows no total before each job knows its own', () => {
    const { progress } = summaryOf([
      group({ done: 3, total: 7 }),
      group({ status: 'queued', unit: null, jobs: 4, unknown: 4 }),
    ]);
    expect(progress).deep.equal({ done: 3, total: null, unit: 'chunks' });
  });

  it('does not add chunks to rounds', () => {
    const { progress } = summaryOf([group({ done: 3, total: 7 }), group({ unit: 'round', done: 2 })]);
    expect(progress).deep.equal({ done: 0, total: null, unit: null });
  });
});
