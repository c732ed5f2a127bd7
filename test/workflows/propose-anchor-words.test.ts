import type { WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import type { AnchoringActivities } from '#activities/anchoring.ts';
import { retryUpdateName, skipUpdateName, stageQueryName } from '#src/contracts/messages.ts';
import { type AppError, appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/search-attributes.ts';
import { stubAnchoring } from '#test/support/stub-anchoring.ts';
import { type TestWorkers, testWorkers } from '#test/support/test-workers.ts';
import { until } from '#test/support/until.ts';
import { attributeOf, failureOf } from '#test/support/workflow-run.ts';

describe('proposeAnchorWords', function () {
  this.timeout(60_000);
  let temporal: TestWorkers;

  before(async () => {
    temporal = await testWorkers();
  });
  after(() => temporal.close());

  async function propose(activities: AnchoringActivities, use: (run: WorkflowHandle) => Promise<void>): Promise<void> {
    await temporal.withWorker(activities, async (taskQueue) => {
      const args = [{ orgId: 'org', agentId: 'agent' }];
      const typedSearchAttributes = searchAttributes({ OrgId: 'org', AgentId: 'agent', JobKind: 'anchors' });
      const options = { workflowId: `test-${uuidv7()}`, taskQueue, args, typedSearchAttributes };
      await use(await temporal.client.workflow.start('proposeAnchorWords', options));
    });
  }

  /** Whose step throws these, one after the other, and then works. */
  const failing = (...faults: AppError[]) =>
    stubAnchoring({
      proposeWords: async () => {
        const fault = faults.shift();
        if (fault !== undefined) throw fault;
        return { count: 40 };
      },
    });

  const eventually = (what: string, run: WorkflowHandle, update: string) =>
    until(what, () =>
      run.executeUpdate(update).then(
        () => true,
        () => false,
      ),
    );

  it('proposes words, and shows that it did', async () => {
    const { activities, calls } = stubAnchoring();
    await propose(activities, async (run) => {
      expect(await run.result()).deep.equal({ count: 40 });
      expect(calls).deep.equal(['proposeWords', 'recordAnchoring']);
      expect(await run.query(stageQueryName)).deep.equal({ stage: 'done' });
      expect(await attributeOf(run, 'Stage')).equal('done');
      expect(await attributeOf(run, 'AgentId')).equal('agent');
    });
  });

  it('ends well where the agent was deleted meanwhile', async () => {
    const { activities, calls } = stubAnchoring({ proposeWords: async () => ({ count: 0 }) });
    await propose(activities, async (run) => {
      expect(await run.result()).deep.equal({ count: 0 });
      expect(calls.at(-1)).equal('recordAnchoring');
    });
  });

  it('asks again where a model was away', async () => {
    const { activities, calls } = failing(appError('model_unavailable', { retryAfterSeconds: 1 }));
    await propose(activities, async (run) => {
      await run.result();
      expect(calls).deep.equal(['proposeWords', 'proposeWords', 'recordAnchoring']);
    });
  });

  it('waits for a person where only a person helps', async () => {
    const { activities, calls } = failing(appError('model_not_configured'));
    await propose(activities, async (run) => {
      await eventually('it goes on', run, retryUpdateName);
      await run.result();
      expect(calls).deep.equal([
        'proposeWords',
        'recordParkedAnchoring',
        'recordResumedAnchoring',
        'proposeWords',
        'recordAnchoring',
      ]);
    });
  });

  it('fails when it is skipped', async () => {
    const { activities, calls } = failing(appError('model_not_configured'));
    await propose(activities, async (run) => {
      await eventually('it is skipped', run, skipUpdateName);
      expect(await failureOf(run))
        .instanceOf(ApplicationFailure)
        .property('type', 'skipped');
      expect(calls.at(-1)).equal('recordAnchoringFailure');
    });
  });

  it('records that it was cancelled', async () => {
    const { activities, calls } = failing(appError('model_not_configured'));
    await propose(activities, async (run) => {
      await until('it is parked', async () => calls.includes('recordParkedAnchoring'));
      await run.cancel();
      expect(await failureOf(run)).instanceOf(CancelledFailure);
      expect(calls.at(-1)).equal('recordAnchoringCancellation');
    });
  });
});
