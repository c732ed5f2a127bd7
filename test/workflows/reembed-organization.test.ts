import type { WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import type { ReembeddingActivities } from '#activities/reembedding.ts';
import { pauseUpdateName, type ReembeddingProgress, resumeUpdateName } from '#src/contracts/ingestion.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/connection.ts';
import { createOrchestrator } from '#src/temporal/orchestrator.ts';
import { type HistoryEvent, untilHistory } from '#test/support/history-events.ts';
import { type StandingWorker, standingWorker } from '#test/support/standing-worker.ts';
import { failFirstAttempt, stubReembedding, untilCancelled } from '#test/support/stub-activities.ts';
import { attributeOf, failureOf } from '#test/support/workflow-run.ts';

describe('reembedOrganization', () => {
  let worker: StandingWorker;
  before(async () => {
    worker = await standingWorker();
  });

  const input = { orgId: 'org', model: 'new-model' };
  const reembed = (activities: ReembeddingActivities) =>
    worker.start('reembedOrganization', activities, {
      args: [input],
      memo: { attempt: 2 },
      typedSearchAttributes: searchAttributes({ OrgId: 'org', JobKind: 'reembed' }),
    });
  const stateOf = (run: WorkflowHandle): Promise<ReembeddingProgress> => run.query(stageQueryName);

  it('processes every document once, at most twenty at a time, and continues in new histories', async () => {
    const open = new Set<string>();
    let most = 0;
    const stub = stubReembedding(500, {
      awaitReembeddings: async ({ jobIds }) => {
        for (const id of jobIds) open.add(id);
        most = Math.max(most, jobIds.length);
        return { done: jobIds.slice(0, 15), failed: [] };
      },
    });
    const run = await reembed(stub.activities);
    expect(await run.result()).deep.equal({ done: 500, failed: 0, total: 500 });
    expect([open.size, most]).deep.equal([500, 20]);
    expect((await run.describe()).runId).not.equal(run.firstExecutionRunId);
    expect(stub.calls.filter(({ name }) => name === 'countReembeddings')).length(1);
    expect(stub.calls.at(-1)).deep.equal({
      name: 'recordReembedding',
      input: { orgId: 'org', attempt: 2, counts: { done: 500, failed: 0, total: 500 } },
    });
    expect(await attributeOf(run, 'Stage')).equal('done');
  });

  it('starts no more documents while it is paused, and shows the pause', async () => {
    const waiting = Promise.withResolvers<void>();
    const { activities, calls, untilCalled } = stubReembedding(50, {
      awaitReembeddings: async ({ jobIds }) => {
        await waiting.promise;
        return { done: jobIds, failed: [] };
      },
    });
    const run = await reembed(activities);
    await untilCalled('awaitReembeddings');
    await run.executeUpdate(pauseUpdateName);
    expect(await run.executeUpdate(pauseUpdateName).catch(() => 'refused')).equal('refused');
    waiting.resolve();
    await untilHistory(run, (events) => completedActivities(events).includes('awaitReembeddings'));
    expect(await stateOf(run)).deep.include({ done: 20, isPaused: true, jobIds: [] });
    expect(await attributeOf(run, 'Stage')).equal('paused');
    const opened = () => calls.filter(({ name }) => name === 'openReembeddings').length;
    expect(opened()).equal(1);
    await run.executeUpdate(resumeUpdateName);
    expect(await run.result()).deep.equal({ done: 50, failed: 0, total: 50 });
    const pauses = calls.filter(({ name }) => name === 'recordReembeddingPause').map((call) => call.input);
    expect(pauses).deep.equal([true, false].map((isPaused) => ({ orgId: 'org', isPaused })));
  });

  it('can be paused, resumed, and cancelled while it is paused, in a new history', async () => {
    const orchestrator = createOrchestrator(worker.temporal, { uiUrl: null });
    const isHeld = Promise.withResolvers<void>();
    const { activities, calls } = stubReembedding(700, {
      awaitReembeddings: async ({ jobIds }) => {
        if (!jobIds.includes('document-0600')) return { done: jobIds, failed: [] };
        isHeld.resolve();
        return untilCancelled();
      },
    });
    const run = await reembed(activities);
    await isHeld.promise;
    expect((await run.describe()).runId).not.equal(run.firstExecutionRunId);
    expect(await orchestrator.setPaused(run.workflowId, true)).equal('done');
    expect(await stateOf(run)).include({ isPaused: true });
    expect(await orchestrator.setPaused(run.workflowId, false)).equal('done');
    expect(await orchestrator.setPaused(run.workflowId, true)).equal('done');
    await orchestrator.cancel(run.workflowId);
    expect(await failureOf(run)).instanceOf(CancelledFailure);
    expect(calls.at(-1)).deep.equal({ name: 'recordReembeddingCancellation', input: { orgId: 'org', attempt: 2 } });
  });

  it('continues when documents fail, and fails at the end with the number of failed documents', async () => {
    const recorded: unknown[] = [];
    const { activities } = stubReembedding(30, {
      awaitReembeddings: async ({ jobIds }) => ({ done: jobIds.slice(1), failed: jobIds.slice(0, 1) }),
      recordReembeddingFailure: async (failure) => void recorded.push(failure),
    });
    const run = await reembed(activities);
    expect(await failureOf(run))
      .instanceOf(ApplicationFailure)
      .property('type', 'reembedding_incomplete');
    const message = '2 of 30 documents were not embedded, and are found by their old vectors.';
    expect(recorded).deep.equal([{ orgId: 'org', attempt: 2, error: { code: 'reembedding_incomplete', message } }]);
  });

  it('retries a step whose database is down, and fails at once when no provider offers the model', async () => {
    const { activities } = stubReembedding(3, {
      openReembeddings: async () => {
        failFirstAttempt(appError('service_unavailable', { retryAfterSeconds: 0.01 }));
        return { jobIds: [], settled: 3, after: null };
      },
    });
    expect(await (await reembed(activities)).result()).deep.equal({ done: 3, failed: 0, total: 3 });
    const refused = stubReembedding(3, {
      countReembeddings: async () => {
        throw appError('unknown_model');
      },
    });
    expect(await failureOf(await reembed(refused.activities))).property('type', 'unknown_model');
  });
});

/** The names of the activities whose completion is in the history, in order. */
function completedActivities(events: readonly HistoryEvent[]): string[] {
  return events.flatMap(({ activityTaskCompletedEventAttributes: completed }) => {
    if (!completed) return [];
    const scheduled = events[Number(completed.scheduledEventId) - 1]?.activityTaskScheduledEventAttributes;
    return scheduled?.activityType?.name ?? [];
  });
}
