import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import type { AnchorWordActivities } from '#activities/anchoring.ts';
import { retryUpdateName, skipUpdateName, stageQueryName } from '#src/contracts/workflow-runs.ts';
import { type AppError, appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/connection.ts';
import { type StandingWorker, standingWorker } from '#test/support/standing-worker.ts';
import { failFirstAttempt, stubAnchoring } from '#test/support/stub-activities.ts';
import { attributeOf, failureOf } from '#test/support/workflow-run.ts';

describe('proposeAnchorWords', () => {
  let worker: StandingWorker;

  before(async () => {
    worker = await standingWorker();
  });

  const propose = (activities: AnchorWordActivities) =>
    worker.start('proposeAnchorWords', activities, {
      args: [{ orgId: 'org', agentId: 'agent' }],
      typedSearchAttributes: searchAttributes({ OrgId: 'org', AgentId: 'agent', JobKind: 'anchors' }),
    });

  /** Fails in its first step until the run is resumed. */
  function failing(fault: AppError) {
    const stub = stubAnchoring({
      proposeWords: async () => {
        if (!stub.names.includes('recordResumedAnchoring')) throw fault;
        return { count: 40 };
      },
    });
    return stub;
  }

  it('proposes anchor words and shows that it is done', async () => {
    const { activities, names } = stubAnchoring();
    const run = await propose(activities);
    expect(await run.result()).deep.equal({ count: 40 });
    expect(names).deep.equal(['proposeWords', 'recordAnchoring']);
    expect(await run.query(stageQueryName)).deep.equal({ stage: 'done' });
    expect(await attributeOf(run, 'Stage')).equal('done');
    expect(await attributeOf(run, 'AgentId')).equal('agent');
  });

  it('succeeds when the agent was deleted in the meantime', async () => {
    const { activities, names } = stubAnchoring({ proposeWords: async () => ({ count: 0 }) });
    const run = await propose(activities);
    expect(await run.result()).deep.equal({ count: 0 });
    expect(names.at(-1)).equal('recordAnchoring');
  });

  it('retries when a model was unavailable', async () => {
    const { activities, names } = stubAnchoring({
      proposeWords: async () => {
        failFirstAttempt(appError('model_unavailable', { retryAfterSeconds: 0.01 }));
        return { count: 40 };
      },
    });
    const run = await propose(activities);
    await run.result();
    expect(names).deep.equal(['proposeWords', 'proposeWords', 'recordAnchoring']);
  });

  it('is parked when only an operator can help, and continues on retry', async () => {
    const { activities, names, untilCalled } = failing(appError('model_not_configured'));
    const run = await propose(activities);
    await untilCalled('recordParkedAnchoring');
    await run.executeUpdate(retryUpdateName);
    await run.result();
    expect(names).deep.equal([
      'proposeWords',
      'recordParkedAnchoring',
      'recordResumedAnchoring',
      'proposeWords',
      'recordAnchoring',
    ]);
  });

  it('fails when an operator skips it', async () => {
    const { activities, names, untilCalled } = failing(appError('model_not_configured'));
    const run = await propose(activities);
    await untilCalled('recordParkedAnchoring');
    await run.executeUpdate(skipUpdateName);
    expect(await failureOf(run))
      .instanceOf(ApplicationFailure)
      .property('type', 'skipped');
    expect(names.at(-1)).equal('recordAnchoringFailure');
  });

  it('records its cancellation', async () => {
    const { activities, names, untilCalled } = failing(appError('model_not_configured'));
    const run = await propose(activities);
    await untilCalled('recordParkedAnchoring');
    await run.cancel();
    expect(await failureOf(run)).instanceOf(CancelledFailure);
    expect(names.at(-1)).equal('recordAnchoringCancellation');
  });
});
