import { ApplicationFailure } from '@temporalio/common';
import { expect } from 'chai';
import type { ErasureActivities } from '#activities/erasure.ts';
import { retryUpdateName, skipUpdateName, stageQueryName } from '#src/contracts/workflow-runs.ts';
import { appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/connection.ts';
import { type HistoryEvent, untilHistory } from '#test/support/history-events.ts';
import { type StandingWorker, standingWorker } from '#test/support/standing-worker.ts';
import { failFirstAttempt, stubErasure } from '#test/support/stub-activities.ts';
import { attributeOf, detailsOf, failureOf } from '#test/support/workflow-run.ts';

const rows = ['chats', 'drafts', 'agents', 'folders', 'traces'].map((what) => `eraseRows ${what}`);
const steps = ['stopWork', 'eraseDocuments', ...rows, 'forgetLeaver', 'recordErasure'];
const dueNow = '2026-01-01T00:00:00.000Z';

describe('eraseContent', () => {
  let worker: StandingWorker;

  before(async () => {
    worker = await standingWorker();
  });

  const erase = (activities: ErasureActivities, dueAt = dueNow) =>
    worker.start('eraseContent', activities, {
      args: [{ orgId: 'org', userId: 'user', dueAt }],
      staticSummary: 'Erase the data of a deleted user',
      memo: { attempt: 1, startId: 'start', summary: 'Erase the data of a deleted user' },
      typedSearchAttributes: searchAttributes({ OrgId: 'org', JobKind: 'erase' }),
    });

  /** Fails to erase documents until the run is resumed. */
  function parkedErasure() {
    const stub = stubErasure(1, {
      eraseDocuments: async () => {
        if (!stub.names.includes('recordResumedErasure'))
          throw appError('erasure_incomplete', { detail: 'One of them.' });
        return { erased: 1, isMore: false };
      },
    });
    return stub;
  }

  it('stops the work first, erases each kind of content, then the user', async () => {
    const { activities, names } = stubErasure(1);
    const run = await erase(activities);
    const byKind = { documents: 20, chats: 1, drafts: 1, agents: 1, folders: 1, traces: 1 };
    expect(await run.result()).deep.equal({ erased: 25, byKind });
    expect(names).deep.equal(steps);
    expect(await run.query(stageQueryName)).deep.equal({ stage: 'done', erased: 25, byKind });
  });

  it('waits until its due date, shows the date, and ignores a cancellation', async () => {
    const dueAt = new Date(Date.now() + 30 * 86_400_000).toISOString();
    const { activities, names } = stubErasure(1);
    const run = await erase(activities, dueAt);
    const isTimer = (event: HistoryEvent) => event.timerStartedEventAttributes;
    await untilHistory(run, (events) => events.some(isTimer));
    expect(await attributeOf(run, 'Stage')).equal('wait');
    expect(await detailsOf(run)).include(`Waiting until ${dueAt}`);
    await run.cancel();
    const events = await untilHistory(run, (all) => {
      const cancellation = all.findIndex((event) => event.workflowExecutionCancelRequestedEventAttributes);
      const later = cancellation < 0 ? [] : all.slice(cancellation);
      return later.some((event) => event.workflowTaskCompletedEventAttributes) && all;
    });
    const timers = events.flatMap(({ timerStartedEventAttributes: timer }) => timer?.startToFireTimeout ?? []);
    expect(timers).length(1);
    expect(Number(timers[0]?.seconds)).within(29 * 86_400, 30 * 86_400);
    expect(await attributeOf(run, 'Stage')).equal('wait');
    expect((await run.describe()).status.name).equal('RUNNING');
    expect(names).deep.equal(['stopWork']);
    await run.terminate();
  });

  it('continues in a new history without stopping the work or waiting again', async () => {
    const { activities, names } = stubErasure(60);
    const run = await erase(activities);
    const byKind = { documents: 60 * 20, chats: 1, drafts: 1, agents: 1, folders: 1, traces: 1 };
    expect(await run.result()).deep.equal({ erased: 60 * 20 + 5, byKind });
    expect(names.filter((name) => name === 'stopWork')).length(1);
    const latest = await worker.client.workflow.getHandle(run.workflowId).describe();
    expect(latest.runId).not.equal(run.firstExecutionRunId);
    expect(await detailsOf(worker.client.workflow.getHandle(run.workflowId))).match(
      /^Erase the data of a deleted user\n\nDone/,
    );
  });

  it('erases again when new content has appeared in the meantime', async () => {
    const { activities, names } = stubErasure(1, {
      // Each round erases one chat.
      forgetLeaver: async ({ byKind }) => ({ isMore: byKind?.chats === 1 }),
    });
    const run = await erase(activities);
    await run.result();
    const round = steps.slice(1, -1);
    expect(names).deep.equal(['stopWork', ...round, ...round, 'recordErasure']);
  });

  it('retries a step whose store was unavailable', async () => {
    const stub = stubErasure(1, {
      eraseRows: async ({ what }) => {
        if (what === 'chats') failFirstAttempt(appError('service_unavailable', { retryAfterSeconds: 0.01 }));
        return { erased: 0, isMore: false };
      },
    });
    const run = await erase(stub.activities);
    await run.result();
    expect(stub.names).deep.equal(steps.toSpliced(2, 0, 'eraseRows chats'));
  });

  it('is parked when only an operator can help, and continues on retry', async () => {
    const { activities, names, untilCalled } = parkedErasure();
    const run = await erase(activities);
    await untilCalled('recordParkedErasure');
    expect(await attributeOf(run, 'ErrorCode')).equal('erasure_incomplete');
    expect(await detailsOf(run)).include('One of them.');
    await run.executeUpdate(retryUpdateName);
    await run.result();
    const parked = ['eraseDocuments', 'recordParkedErasure', 'recordResumedErasure'];
    expect(names).deep.equal(steps.toSpliced(1, 0, ...parked));
  });

  it('fails when an operator skips it', async () => {
    const { activities, names, untilCalled } = parkedErasure();
    const run = await erase(activities);
    await untilCalled('recordParkedErasure');
    await run.executeUpdate(skipUpdateName);
    expect(await failureOf(run))
      .instanceOf(ApplicationFailure)
      .property('type', 'skipped');
    expect(names.at(-1)).equal('recordErasureFailure');
  });

  it('fails with the code of a permanent fault', async () => {
    const { activities, names } = stubErasure(1, {
      forgetLeaver: async () => {
        throw appError('blob_missing');
      },
    });
    const run = await erase(activities);
    expect(await failureOf(run))
      .instanceOf(ApplicationFailure)
      .property('type', 'blob_missing');
    expect(names.at(-1)).equal('recordErasureFailure');
  });
});
