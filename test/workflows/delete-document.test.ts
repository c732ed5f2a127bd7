import { ApplicationFailure } from '@temporalio/common';
import { expect } from 'chai';
import type { DeletionActivities } from '#activities/deletion.ts';
import { retryUpdateName, skipUpdateName, stageQueryName } from '#src/contracts/workflow-runs.ts';
import { appError } from '#src/errors.ts';
import { type StandingWorker, standingWorker } from '#test/support/standing-worker.ts';
import { failFirstAttempt, stubDeletion } from '#test/support/stub-activities.ts';
import { failureOf } from '#test/support/workflow-run.ts';

const steps = ['stopIngestion', 'deleteVectors', 'deleteChunks', 'deleteOriginal', 'forgetDocument', 'recordDeletion'];

describe('deleteDocument', () => {
  let worker: StandingWorker;

  before(async () => {
    worker = await standingWorker();
  });

  const remove = (activities: DeletionActivities) =>
    worker.start('deleteDocument', activities, { args: [{ orgId: 'org', documentId: 'document' }] });

  /** Fails to delete vectors until the run is resumed. */
  function parkedDeletion() {
    const stub = stubDeletion({
      deleteVectors: async () => {
        if (!stub.names.includes('recordResumedDeletion')) throw appError('model_not_configured');
      },
    });
    return stub;
  }

  it('stops the ingestion first and deletes the row of the document last', async () => {
    const { activities, names } = stubDeletion();
    const run = await remove(activities);
    await run.result();
    expect(names).deep.equal(steps);
    expect(await run.query(stageQueryName)).deep.equal({ stage: 'done' });
  });

  it('retries a step whose store was unavailable', async () => {
    const { activities, names } = stubDeletion({
      deleteVectors: async () => failFirstAttempt(appError('service_unavailable', { retryAfterSeconds: 0.01 })),
    });
    const run = await remove(activities);
    await run.result();
    expect(names).deep.equal(steps.toSpliced(1, 0, 'deleteVectors'));
  });

  it('is parked when only an operator can help, and continues on retry', async () => {
    const { activities, names, untilCalled } = parkedDeletion();
    const run = await remove(activities);
    await untilCalled('recordParkedDeletion');
    await run.executeUpdate(retryUpdateName);
    await run.result();
    expect(names).deep.equal(steps.toSpliced(1, 0, 'deleteVectors', 'recordParkedDeletion', 'recordResumedDeletion'));
  });

  it('fails when an operator skips it, so that it can be requested again', async () => {
    const { activities, names, untilCalled } = parkedDeletion();
    const run = await remove(activities);
    await untilCalled('recordParkedDeletion');
    await run.executeUpdate(skipUpdateName);
    expect(await failureOf(run))
      .instanceOf(ApplicationFailure)
      .property('type', 'skipped');
    expect(names.at(-1)).equal('recordDeletionFailure');
  });

  it('finishes although it is cancelled', async () => {
    const gate = Promise.withResolvers<void>();
    const { activities, names, untilCalled } = stubDeletion({ deleteChunks: () => gate.promise });
    const run = await remove(activities);
    await untilCalled('deleteChunks');
    await run.cancel();
    gate.resolve();
    await run.result();
    expect(names).deep.equal(steps);
  });
});
