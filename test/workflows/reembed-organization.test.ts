import { Context } from '@temporalio/activity';
import type { WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { heartbeating } from '#activities/heartbeating.ts';
import type { ReembeddingActivities } from '#activities/reembedding.ts';
import { stageQueryName } from '#src/contracts/messages.ts';
import { pauseUpdateName, type ReembeddingProgress, resumeUpdateName } from '#src/contracts/reembedding.ts';
import { appError } from '#src/errors.ts';
import { createOrchestrator } from '#src/temporal/gateway.ts';
import { searchAttributes } from '#src/temporal/search-attributes.ts';
import { testServices } from '#test/support/services.ts';
import { stubReembedding } from '#test/support/stub-reembedding.ts';
import { connectToTemporal } from '#test/support/temporal-client.ts';
import { type TestWorkers, testWorkers } from '#test/support/test-workers.ts';
import { until } from '#test/support/until.ts';
import { attributeOf, failureOf } from '#test/support/workflow-run.ts';

describe('reembedOrganization', function () {
  this.timeout(60_000);
  let temporal: TestWorkers;
  before(async () => {
    temporal = await testWorkers();
  });
  after(() => temporal.close());

  const input = { orgId: 'org', model: 'new-model' };
  async function reembed(
    activities: ReembeddingActivities,
    use: (run: WorkflowHandle) => Promise<void>,
  ): Promise<void> {
    await temporal.withWorker(activities, async (taskQueue) => {
      const run = await temporal.client.workflow.start('reembedOrganization', {
        workflowId: `test-${uuidv7()}`,
        taskQueue,
        args: [input],
        memo: { attempt: 2 },
        typedSearchAttributes: searchAttributes({ OrgId: 'org', JobKind: 'reembed' }),
      });
      await use(run);
    });
  }
  const stateOf = (run: WorkflowHandle): Promise<ReembeddingProgress> => run.query(stageQueryName);
  const gate = () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    return { promise, open: resolve };
  };

  it('looks at every document once, twenty at a time at most, and goes on in new histories', async () => {
    const open = new Set<string>();
    let most = 0;
    const stub = stubReembedding(500, {
      awaitReembeddings: async ({ jobIds }) => {
        for (const id of jobIds) open.add(id);
        most = Math.max(most, jobIds.length);
        return { done: jobIds.slice(0, 15), failed: [] };
      },
    });
    await reembed(stub.activities, async (run) => {
      const first = (await run.describe()).runId;
      expect(await run.result()).deep.equal({ done: 500, failed: 0, total: 500 });
      expect([open.size, most]).deep.equal([500, 20]);
      expect((await run.describe()).runId).not.equal(first);
      expect(stub.calls.filter(({ name }) => name === 'countReembeddings')).length(1);
      expect(stub.calls.at(-1)).deep.equal({
        name: 'recordReembedding',
        input: { orgId: 'org', attempt: 2, counts: { done: 500, failed: 0, total: 500 } },
      });
      expect(await attributeOf(run, 'Stage')).equal('done');
    });
  });

  it('begins with no more while it is paused, and says so', async () => {
    const [waiting, isWaiting] = [gate(), gate()];
    const { activities, calls } = stubReembedding(50, {
      awaitReembeddings: async ({ jobIds }) => {
        isWaiting.open();
        await waiting.promise;
        return { done: jobIds, failed: [] };
      },
    });
    await reembed(activities, async (run) => {
      await isWaiting.promise;
      await run.executeUpdate(pauseUpdateName);
      expect(await run.executeUpdate(pauseUpdateName).catch(() => 'refused')).equal('refused');
      waiting.open();
      await until('what was under way is done', async () => (await stateOf(run)).done === 20);
      expect(await stateOf(run)).deep.include({ isPaused: true, jobIds: [] });
      expect(await attributeOf(run, 'Stage')).equal('paused');
      const opened = () => calls.filter(({ name }) => name === 'openReembeddings').length;
      expect(opened()).equal(1);
      await run.executeUpdate(resumeUpdateName);
      expect(await run.result()).deep.equal({ done: 50, failed: 0, total: 50 });
      const pauses = calls.filter(({ name }) => name === 'recordReembeddingPause').map((call) => call.input);
      expect(pauses).deep.equal([true, false].map((isPaused) => ({ orgId: 'org', isPaused })));
    });
  });

  it('is paused, resumed and cancelled in a new history as in its first', async () => {
    const address = testServices().temporalAddress;
    const connection = connectToTemporal({ address, namespace: 'default' });
    const orchestrator = createOrchestrator(connection, { uiUrl: null });
    const { activities, calls } = stubReembedding(10_000);
    await reembed(activities, async (run) => {
      const first = (await run.describe()).runId;
      const isContinued = async () => (await run.describe()).runId !== first;
      await until('it goes on in a new history', isContinued, 45_000);
      expect(await orchestrator.setPaused(run.workflowId, true)).equal('done');
      expect(await stateOf(run)).include({ isPaused: true });
      expect(await orchestrator.setPaused(run.workflowId, false)).equal('done');
      await orchestrator.cancel(run.workflowId);
      expect(await failureOf(run)).instanceOf(CancelledFailure);
      expect(calls.at(-1)).deep.equal({ name: 'recordReembeddingCancellation', input: { orgId: 'org', attempt: 2 } });
    });
    await connection.close();
  });

  it('goes to the end when some fail, and then says how many', async () => {
    const recorded: unknown[] = [];
    const { activities } = stubReembedding(30, {
      awaitReembeddings: async ({ jobIds }) => ({ done: jobIds.slice(1), failed: jobIds.slice(0, 1) }),
      recordReembeddingFailure: async (failure) => void recorded.push(failure),
    });
    await reembed(activities, async (run) => {
      expect(await failureOf(run))
        .instanceOf(ApplicationFailure)
        .property('type', 'reembedding_incomplete');
      const message = '2 of 30 documents were not embedded, and are found by their old vectors.';
      expect(recorded).deep.equal([{ orgId: 'org', attempt: 2, error: { code: 'reembedding_incomplete', message } }]);
    });
  });

  it('repeats a step whose database is down, and fails at once for a model that nobody offers', async () => {
    const flaky = stubReembedding(3, {
      openReembeddings: async () => {
        if (Context.current().info.attempt === 1) throw appError('service_unavailable');
        return { jobIds: [], settled: 3, after: null };
      },
    });
    await reembed(flaky.activities, async (run) => {
      expect(await run.result()).deep.equal({ done: 3, failed: 0, total: 3 });
    });
    const { activities } = stubReembedding(3, {
      countReembeddings: async () => {
        throw appError('unknown_model');
      },
    });
    await reembed(activities, async (run) => {
      expect(await failureOf(run))
        .instanceOf(ApplicationFailure)
        .property('type', 'unknown_model');
    });
  });

  it('begins with no more when it is cancelled, also while it is paused', async () => {
    const waiting = gate();
    const { activities, calls } = stubReembedding(50, {
      awaitReembeddings: async ({ jobIds }) => {
        await heartbeating(() => waiting.promise);
        return { done: jobIds, failed: [] };
      },
    });
    await reembed(activities, async (run) => {
      await run.executeUpdate(pauseUpdateName);
      waiting.open();
      await run.cancel();
      expect(await failureOf(run)).instanceOf(CancelledFailure);
      expect(calls.at(-1)).deep.equal({ name: 'recordReembeddingCancellation', input: { orgId: 'org', attempt: 2 } });
    });
  });
});
