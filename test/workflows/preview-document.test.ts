import type { WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import type { PreviewActivities } from '#activities/previews.ts';
import { retryUpdateName, skipUpdateName, stageQueryName } from '#src/contracts/messages.ts';
import { type AppError, appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/search-attributes.ts';
import { stubPreviews } from '#test/support/stub-previews.ts';
import { type TestWorkers, testWorkers } from '#test/support/test-workers.ts';
import { until } from '#test/support/until.ts';
import { attributeOf, failureOf } from '#test/support/workflow-run.ts';

describe('previewDocument', function () {
  this.timeout(60_000);
  let temporal: TestWorkers;

  before(async () => {
    temporal = await testWorkers();
  });
  after(() => temporal.close());

  async function preview(activities: PreviewActivities, use: (run: WorkflowHandle) => Promise<void>): Promise<void> {
    await temporal.withWorker(activities, async (taskQueue) => {
      const args = [{ orgId: 'org', documentId: 'document', generation: 1 }];
      const typedSearchAttributes = searchAttributes({ OrgId: 'org', DocumentId: 'document', JobKind: 'preview' });
      const options = { workflowId: `test-${uuidv7()}`, taskQueue, args, typedSearchAttributes };
      await use(await temporal.client.workflow.start('previewDocument', options));
    });
  }

  /** Whose first step throws these, one after the other, and then works. */
  const failing = (...faults: AppError[]) =>
    stubPreviews({
      renderPreview: async () => {
        const fault = faults.shift();
        if (fault !== undefined) throw fault;
        return { sizeBytes: 30_000, reused: true };
      },
    });

  const eventually = (what: string, run: WorkflowHandle, update: string) =>
    until(what, () =>
      run.executeUpdate(update).then(
        () => true,
        () => false,
      ),
    );

  it('prints the document and finds its pages, and shows that it did', async () => {
    const { activities, calls } = stubPreviews();
    await preview(activities, async (run) => {
      expect(await run.result()).deep.equal({ pageCount: 3 });
      expect(calls).deep.equal(['renderPreview', 'alignPages', 'recordPreview']);
      expect(await run.query(stageQueryName)).deep.equal({ stage: 'done' });
      expect(await attributeOf(run, 'Stage')).equal('done');
    });
  });

  it('ends well where the document went or was replaced meanwhile', async () => {
    const { activities, calls } = stubPreviews({ renderPreview: async () => null });
    await preview(activities, async (run) => {
      expect(await run.result()).deep.equal({ pageCount: null });
      expect(calls).deep.equal(['renderPreview', 'recordPreview']);
    });
  });

  it('fails at once for a file that cannot be printed, with its code', async () => {
    const { activities, calls } = failing(appError('corrupt_document'));
    await preview(activities, async (run) => {
      expect(await failureOf(run))
        .instanceOf(ApplicationFailure)
        .property('type', 'corrupt_document');
      expect(calls).deep.equal(['renderPreview', 'recordPreviewFailure']);
      expect(await attributeOf(run, 'ErrorCode')).equal('corrupt_document');
    });
  });

  it('asks again where a service was away', async () => {
    const { activities, calls } = failing(appError('service_unavailable', { retryAfterSeconds: 1 }));
    await preview(activities, async (run) => {
      await run.result();
      expect(calls).deep.equal(['renderPreview', 'renderPreview', 'alignPages', 'recordPreview']);
    });
  });

  it('waits for a person where only a person helps', async () => {
    const { activities, calls } = failing(appError('blob_store_refused'));
    await preview(activities, async (run) => {
      await eventually('it goes on', run, retryUpdateName);
      await run.result();
      const around = ['recordParkedPreview', 'recordResumedPreview'];
      expect(calls).deep.equal(['renderPreview', ...around, 'renderPreview', 'alignPages', 'recordPreview']);
    });
  });

  it('fails when it is skipped', async () => {
    const { activities, calls } = failing(appError('blob_store_refused'));
    await preview(activities, async (run) => {
      await eventually('it is skipped', run, skipUpdateName);
      expect(await failureOf(run))
        .instanceOf(ApplicationFailure)
        .property('type', 'skipped');
      expect(calls.at(-1)).equal('recordPreviewFailure');
    });
  });

  it('records that it was cancelled', async () => {
    const { activities, calls } = failing(appError('blob_store_refused'));
    await preview(activities, async (run) => {
      await until('it is parked', async () => calls.includes('recordParkedPreview'));
      await run.cancel();
      expect(await failureOf(run)).instanceOf(CancelledFailure);
      expect(calls.at(-1)).equal('recordPreviewCancellation');
    });
  });
});
