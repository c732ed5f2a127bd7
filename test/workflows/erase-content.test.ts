import type { WorkflowHandleWithFirstExecutionRunId } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import type { ErasureActivities } from '#activities/erasure.ts';
import { retryUpdateName, skipUpdateName, stageQueryName } from '#src/contracts/messages.ts';
import { appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/search-attributes.ts';
import { stubErasure } from '#test/support/stub-erasure.ts';
import { type TestWorkers, testWorkers } from '#test/support/test-workers.ts';
import { until } from '#test/support/until.ts';
import { attributeOf, detailsOf, failureOf } from '#test/support/workflow-run.ts';

const rows = ['chats', 'drafts', 'agents', 'folders', 'traces'].map((what) => `eraseRows ${what}`);
const steps = ['stopWork', 'eraseDocuments', ...rows, 'forgetLeaver', 'recordErasure'];
const dueNow = '2026-01-01T00:00:00.000Z';

describe('eraseContent', function () {
  this.timeout(60_000);
  let temporal: TestWorkers;

  before(async () => {
    temporal = await testWorkers();
  });
  after(() => temporal.close());

  async function erase(
    activities: ErasureActivities,
    use: (run: WorkflowHandleWithFirstExecutionRunId, id: string) => Promise<void>,
    dueAt = dueNow,
  ): Promise<void> {
    await temporal.withWorker(activities, async (taskQueue) => {
      const workflowId = `test-${uuidv7()}`;
      const run = await temporal.client.workflow.start('eraseContent', {
        workflowId,
        taskQueue,
        args: [{ orgId: 'org', userId: 'user', dueAt }],
        staticSummary: 'Erase what a user has left behind',
        memo: { attempt: 1, startId: 'start', summary: 'Erase what a user has left behind' },
        typedSearchAttributes: searchAttributes({ OrgId: 'org', JobKind: 'erase' }),
      });
      await use(run, workflowId);
    });
  }

  /** Whose `eraseDocuments` needs a person the first time. */
  function failingOnce() {
    let calls = 0;
    return stubErasure(1, {
      eraseDocuments: async () => {
        calls += 1;
        if (calls === 1) throw appError('erasure_incomplete', { detail: 'One of them.' });
        return { erased: 1, isMore: false };
      },
    });
  }

  it('stops the work first, erases by kind, and forgets who it was at last', async () => {
    const { activities, calls } = stubErasure(1);
    await erase(activities, async (run) => {
      const byKind = { documents: 20, chats: 1, drafts: 1, agents: 1, folders: 1, traces: 1 };
      expect(await run.result()).deep.equal({ erased: 25, byKind });
      expect(calls).deep.equal(steps);
      expect(await run.query(stageQueryName)).deep.equal({ stage: 'done', erased: 25, byKind });
    });
  });

  it('waits until it is time, says until when, and is not cancelled meanwhile', async () => {
    const dueAt = new Date(Date.now() + 30 * 86_400_000).toISOString();
    const { activities, calls } = stubErasure(1);
    await erase(
      activities,
      async (run) => {
        await until('it waits', async () => (await attributeOf(run, 'Stage')) === 'wait');
        expect(await detailsOf(run)).include(`Waits until ${dueAt}`);
        await run.cancel();
        const history = async () => (await run.fetchHistory()).events ?? [];
        const events = await until('the cancellation is known', async () => {
          const all = await history();
          const asked = all.findIndex((event) => event.workflowExecutionCancelRequestedEventAttributes);
          return asked > 0 && all.slice(asked).some((event) => event.workflowTaskCompletedEventAttributes) && all;
        });
        const timers = events.flatMap(({ timerStartedEventAttributes: timer }) => timer?.startToFireTimeout ?? []);
        expect(timers).length(1);
        expect(Number(timers[0]?.seconds)).within(29 * 86_400, 30 * 86_400);
        expect(await attributeOf(run, 'Stage')).equal('wait');
        expect((await run.describe()).status.name).equal('RUNNING');
        expect(calls).deep.equal(['stopWork']);
        await run.terminate();
      },
      dueAt,
    );
  });

  it('goes on in a new history, and neither stops nor waits again there', async () => {
    const { activities, calls } = stubErasure(60);
    await erase(activities, async (run, id) => {
      const byKind = { documents: 60 * 20, chats: 1, drafts: 1, agents: 1, folders: 1, traces: 1 };
      expect(await run.result()).deep.equal({ erased: 60 * 20 + 5, byKind });
      expect(calls.filter((name) => name === 'stopWork')).length(1);
      const latest = await temporal.client.workflow.getHandle(id).describe();
      expect(latest.runId).not.equal(run.firstExecutionRunId);
      expect(await detailsOf(temporal.client.workflow.getHandle(id))).match(
        /^Erase what a user has left behind\n\nDone/,
      );
    });
  });

  it('begins once more when something has come meanwhile', async () => {
    let looks = 0;
    const { activities, calls } = stubErasure(1, {
      forgetLeaver: async () => {
        looks += 1;
        return { isMore: looks === 1 };
      },
    });
    await erase(activities, async (run) => {
      await run.result();
      const round = steps.slice(1, -1);
      expect(calls).deep.equal(['stopWork', ...round, ...round, 'recordErasure']);
    });
  });

  it('repeats a step whose store was away', async () => {
    let calls = 0;
    const stub = stubErasure(1, {
      eraseRows: async () => {
        calls += 1;
        if (calls === 1) throw appError('service_unavailable', { retryAfterSeconds: 1 });
        return { erased: 0, isMore: false };
      },
    });
    await erase(stub.activities, async (run) => {
      await run.result();
      expect(stub.calls).deep.equal(steps.toSpliced(2, 0, 'eraseRows chats'));
    });
  });

  it('waits for a person where only a person helps, and goes on', async () => {
    const { activities, calls } = failingOnce();
    await erase(activities, async (run) => {
      await until('it is parked', async () => calls.includes('recordParkedErasure'));
      expect(await attributeOf(run, 'ErrorCode')).equal('erasure_incomplete');
      expect(await detailsOf(run)).include('One of them.');
      await until('it goes on', () =>
        run.executeUpdate(retryUpdateName).then(
          () => true,
          () => false,
        ),
      );
      await run.result();
      const parked = ['eraseDocuments', 'recordParkedErasure', 'recordResumedErasure'];
      expect(calls).deep.equal(steps.toSpliced(1, 0, ...parked));
    });
  });

  it('ends as failed when a person skips it', async () => {
    const { activities, calls } = failingOnce();
    await erase(activities, async (run) => {
      await until('it is parked', async () => calls.includes('recordParkedErasure'));
      await until('it is skipped', () =>
        run.executeUpdate(skipUpdateName).then(
          () => true,
          () => false,
        ),
      );
      expect(await failureOf(run))
        .instanceOf(ApplicationFailure)
        .property('type', 'skipped');
      expect(calls.at(-1)).equal('recordErasureFailure');
    });
  });

  it('fails with its code where nobody helps', async () => {
    const { activities, calls } = stubErasure(1, {
      forgetLeaver: async () => {
        throw appError('blob_missing');
      },
    });
    await erase(activities, async (run) => {
      expect(await failureOf(run))
        .instanceOf(ApplicationFailure)
        .property('type', 'blob_missing');
      expect(calls.at(-1)).equal('recordErasureFailure');
    });
  });
});
