import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { pauseUpdateName, resumeUpdateName } from '#src/contracts/ingestion.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { appError } from '#src/errors.ts';
import { type Activities, failFirstAttempt, stubActivities, untilCancelled } from '#test/support/stub-activities.ts';
import { orchestratorOfRuns, startRun } from '#test/support/test-workers.ts';
import { until } from '#test/support/until.ts';
import { attributeOf, failureOf } from '#test/support/workflow-run.ts';

/** An organization with the given number of documents, whose ingestions succeed at once. */
function stubReembedding(documents: number, replaced: Partial<Activities>) {
  const ids = Array.from({ length: documents }, (_, index) => `document-${String(index).padStart(4, '0')}`);
  return stubActivities({
    countReembeddings: async () => ({ total: documents }),
    openReembeddings: async ({ after, limit }) => {
      const page = ids.filter((id) => id > (after ?? '')).slice(0, limit);
      return { jobIds: page, settled: 0, after: page.length < limit ? null : (page.at(-1) ?? null) };
    },
    ...replaced,
  });
}

describe('reembedOrganization', () => {
  const reembed = (stub: ReturnType<typeof stubReembedding>) =>
    startRun('reembedOrganization', stub, { orgId: 'org', model: 'new-model' });

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
    const run = await reembed(stub);
    const counts = { done: 500, failed: 0, total: 500 };
    expect(await run.result()).deep.equal(counts);
    expect([open.size, most]).deep.equal([500, 20]);
    expect((await run.describe()).runId).not.equal(run.firstExecutionRunId);
    expect(stub.timesOf('countReembeddings')).equal(1);
    expect(stub.calls.at(-1)).deep.equal({ name: 'recordReembedding', input: { orgId: 'org', attempt: 2, counts } });
    expect(await attributeOf(run, 'Stage')).equal('done');
  });

  it('starts no more documents while it is paused, and shows the pause', async () => {
    const waiting = Promise.withResolvers<void>();
    const stub = stubReembedding(50, {
      awaitReembeddings: async ({ jobIds }) => {
        await waiting.promise;
        return { done: jobIds, failed: [] };
      },
    });
    const run = await reembed(stub);
    await stub.untilCalled('awaitReembeddings');
    await run.executeUpdate(pauseUpdateName);
    expect(await run.executeUpdate(pauseUpdateName).catch(() => 'refused')).equal('refused');
    waiting.resolve();
    const paused = { done: 20, isPaused: true, jobIds: [] };
    await until('it has no open documents', async () => Object(await run.query(stageQueryName)).done === paused.done);
    expect(await run.query(stageQueryName)).deep.include(paused);
    expect(await attributeOf(run, 'Stage')).equal('paused');
    expect(stub.timesOf('openReembeddings')).equal(1);
    await run.executeUpdate(resumeUpdateName);
    expect(await run.result()).deep.equal({ done: 50, failed: 0, total: 50 });
    const pauses = stub.calls.filter(({ name }) => name === 'recordReembeddingPause').map((call) => call.input);
    expect(pauses).deep.equal([true, false].map((isPaused) => ({ orgId: 'org', isPaused })));
  });

  it('can be paused, resumed, and cancelled while it is paused, in a new history', async () => {
    const orchestrator = await orchestratorOfRuns();
    const isHeld = Promise.withResolvers<void>();
    const stub = stubReembedding(700, {
      awaitReembeddings: async ({ jobIds }) => {
        if (!jobIds.includes('document-0600')) return { done: jobIds, failed: [] };
        isHeld.resolve();
        return untilCancelled();
      },
    });
    const run = await reembed(stub);
    await isHeld.promise;
    expect((await run.describe()).runId).not.equal(run.firstExecutionRunId);
    expect(await orchestrator.setPaused(run.workflowId, true)).equal('done');
    expect(await run.query(stageQueryName)).include({ isPaused: true });
    for (const isPaused of [false, true]) expect(await orchestrator.setPaused(run.workflowId, isPaused)).equal('done');
    await orchestrator.cancel(run.workflowId);
    expect(await failureOf(run)).instanceOf(CancelledFailure);
    const recorded = { name: 'recordReembeddingCancellation', input: { orgId: 'org', attempt: 2 } };
    expect(stub.calls.at(-1)).deep.equal(recorded);
  });

  it('continues when documents fail, and fails at the end with the number of failed documents', async () => {
    const stub = stubReembedding(30, {
      awaitReembeddings: async ({ jobIds }) => ({ done: jobIds.slice(1), failed: jobIds.slice(0, 1) }),
    });
    const failure = await failureOf(await reembed(stub));
    expect(failure).instanceOf(ApplicationFailure).property('type', 'reembedding_incomplete');
    const message = '2 of 30 documents were not embedded, and are found by their old vectors.';
    const input = { orgId: 'org', attempt: 2, error: { code: 'reembedding_incomplete', message } };
    expect(stub.calls.at(-1)).deep.equal({ name: 'recordReembeddingFailure', input });
  });

  it('retries a step whose database is down, and fails at once when no provider offers the model', async () => {
    const retried = stubReembedding(3, {
      openReembeddings: async () => {
        failFirstAttempt(appError('service_unavailable', { retryAfterSeconds: 0.01 }));
        return { jobIds: [], settled: 3, after: null };
      },
    });
    expect(await (await reembed(retried)).result()).deep.equal({ done: 3, failed: 0, total: 3 });
    const refused = stubReembedding(3, {
      countReembeddings: async () => {
        throw appError('unknown_model');
      },
    });
    expect(await failureOf(await reembed(refused))).property('type', 'unknown_model');
  });
});
