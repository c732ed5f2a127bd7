import type { WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import type { DeletionActivities } from '#activities/deletion.ts';
import { retryUpdateName, skipUpdateName, stageQueryName } from '#src/contracts/messages.ts';
import { type AppError, appError } from '#src/errors.ts';
import { stubDeletion } from '#test/support/stub-deletion.ts';
import { type TestWorkers, testWorkers } from '#test/support/test-workers.ts';
import { until } from '#test/support/until.ts';
import { failureOf } from '#test/support/workflow-run.ts';

const steps = ['stopIngestion', 'deleteVectors', 'deleteChunks', 'deleteOriginal', 'forgetDocument', 'recordDeletion'];

describe('deleteDocument', function () {
  this.timeout(60_000);
  let temporal: TestWorkers;

  before(async () => {
    temporal = await testWorkers();
  });
  after(() => temporal.close());

  async function remove(activities: DeletionActivities, use: (run: WorkflowHandle) => Promise<void>): Promise<void> {
    await temporal.withWorker(activities, async (taskQueue) => {
      const args = [{ orgId: 'org', documentId: 'document' }];
      const workflowId = `test-${uuidv7()}`;
      await use(await temporal.client.workflow.start('deleteDocument', { workflowId, taskQueue, args }));
    });
  }

  /** Whose `deleteVectors` throws these, one after the other, and then works. */
  const failing = (...faults: AppError[]) =>
    stubDeletion({
      deleteVectors: async () => {
        const fault = faults.shift();
        if (fault !== undefined) throw fault;
      },
    });

  it('stops the ingestion first, and forgets the document last', async () => {
    const { activities, calls } = stubDeletion();
    await remove(activities, async (run) => {
      await run.result();
      expect(calls).deep.equal(steps);
      expect(await run.query(stageQueryName)).deep.equal({ stage: 'done' });
    });
  });

  it('repeats a step whose store was away', async () => {
    const { activities, calls } = failing(appError('service_unavailable', { retryAfterSeconds: 1 }));
    await remove(activities, async (run) => {
      await run.result();
      expect(calls).deep.equal(steps.toSpliced(1, 0, 'deleteVectors'));
    });
  });

  it('waits for a person where only a person helps', async () => {
    const { activities, calls } = failing(appError('model_not_configured'));
    await remove(activities, async (run) => {
      await until('it is parked', async () => calls.includes('recordParkedDeletion'));
      await until('it goes on', () =>
        run.executeUpdate(retryUpdateName).then(
          () => true,
          () => false,
        ),
      );
      await run.result();
      expect(calls).deep.equal(steps.toSpliced(1, 0, 'deleteVectors', 'recordParkedDeletion', 'recordResumedDeletion'));
    });
  });

  it('fails when it is skipped, so that it can be asked for again', async () => {
    const { activities, calls } = failing(appError('model_not_configured'));
    await remove(activities, async (run) => {
      await until('it is skipped', () =>
        run.executeUpdate(skipUpdateName).then(
          () => true,
          () => false,
        ),
      );
      expect(await failureOf(run))
        .instanceOf(ApplicationFailure)
        .property('type', 'skipped');
      expect(calls.at(-1)).equal('recordDeletionFailure');
    });
  });

  it('is not given up half-way when somebody cancels it', async () => {
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const { activities, calls } = stubDeletion({ deleteChunks: () => gate });
    await remove(activities, async (run) => {
      await until('it deletes chunks', async () => calls.includes('deleteChunks'));
      await run.cancel();
      open();
      await run.result();
      expect(calls).deep.equal(steps);
    });
  });
});
