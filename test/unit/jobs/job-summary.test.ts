import { expect } from 'chai';
import { summarizeJobTotals, toJobView } from '#src/modules/jobs/job-requests.service.ts';
import type { JobTotals } from '#src/modules/jobs/jobs.model.ts';

describe('the summary of several jobs', () => {
  const summary = (...groups: Partial<JobTotals>[]) =>
    summarizeJobTotals(
      groups.map((group) => ({ status: 'running', unit: 'chunks', jobs: 1, done: 0, total: 0, unknown: 0, ...group })),
    );

  it('counts the jobs by status', () => {
    const none = { queued: 0, running: 0, parked: 0, succeeded: 0, failed: 0, cancelled: 0, total: 0 };
    expect(summary()).deep.equal({ ...none, progress: { done: 0, total: null, unit: null } });
    const counts = summary({ jobs: 2 }, { status: 'succeeded', jobs: 3 }, { status: 'failed', unit: null });
    expect(counts).include({ ...none, running: 2, succeeded: 3, failed: 1, total: 6 });
  });

  it('adds up progress in a common unit, and has no total while a job has no total', () => {
    const part = { done: 3, total: 7 };
    for (const [groups, done, total, unit] of [
      [[part, { status: 'succeeded', done: 9, total: 9 }, { unit: null }], 12, 16, 'chunks'],
      [[part, { status: 'queued', unit: null, jobs: 4, unknown: 4 }], 3, null, 'chunks'],
      [[part, { unit: 'round', done: 2 }], 0, null, null],
    ] as const) {
      expect(summary(...groups).progress).deep.equal({ done, total, unit });
    }
  });
});

describe('a part of a job', () => {
  type Job = Parameters<typeof toJobView>[0];
  const job: Job = {
    id: 'alignment-1',
    kind: 'alignment',
    status: 'running',
    stage: 'score',
    attempt: 1,
    progressDone: 2,
    progressTotal: 3,
    progressUnit: 'round',
    expectedSeconds: null,
    errorCode: null,
    errorMessage: null,
    documentId: null,
    documentName: null,
    chatId: 'chat',
    chatTitle: 'Loans',
    agentId: null,
    agentName: null,
    connectionId: null,
    connectionName: null,
    startedAt: new Date(),
    finishedAt: null,
  };
  const statusOf = (changes: Partial<Job>, part: string) => toJobView({ ...job, ...changes }, part, null)?.status;

  it('is one round of an alignment job: succeeded once it is scored, and with the status of the job before', () => {
    expect(['1', '2', '3'].map((part) => statusOf({}, part))).deep.equal(['succeeded', 'succeeded', 'running']);
    expect(toJobView(job, '3', null)).include({ id: 'alignment-1.3', stage: '3', progressDone: 0 });
    expect(statusOf({ status: 'parked' }, '3')).equal('parked');
    for (const part of ['0', '01', 'x', '1.5', '1234567890', '']) expect(statusOf({}, part), part).equal(undefined);
    // The rounds that a job has scored are all that it had.
    expect(statusOf({ status: 'succeeded' }, '3')).equal(undefined);
  });
});
