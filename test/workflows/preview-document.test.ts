import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import type { PreviewActivities } from '#activities/previews.ts';
import { retryUpdateName, skipUpdateName, stageQueryName } from '#src/contracts/workflow-runs.ts';
import { type AppError, appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/connection.ts';
import { type StandingWorker, standingWorker } from '#test/support/standing-worker.ts';
import { failFirstAttempt, stubPreviews } from '#test/support/stub-activities.ts';
import { attributeOf, failureOf } from '#test/support/workflow-run.ts';

describe('previewDocument', () => {
  let worker: StandingWorker;

  before(async () => {
    worker = await standingWorker();
  });

  const preview = (activities: PreviewActivities) =>
    worker.start('previewDocument', activities, {
      args: [{ orgId: 'org', documentId: 'document', generation: 1 }],
      typedSearchAttributes: searchAttributes({ OrgId: 'org', DocumentId: 'document', JobKind: 'preview' }),
    });

  /** Fails in its first step until the run is resumed. */
  function failing(fault: AppError) {
    const stub = stubPreviews({
      renderPreview: async () => {
        if (!stub.names.includes('recordResumedPreview')) throw fault;
        return { sizeBytes: 30_000, reused: true };
      },
    });
    return stub;
  }

  it('renders the document, aligns its pages and shows that it is done', async () => {
    const { activities, names } = stubPreviews();
    const run = await preview(activities);
    expect(await run.result()).deep.equal({ pageCount: 3 });
    expect(names).deep.equal(['renderPreview', 'alignPages', 'recordPreview']);
    expect(await run.query(stageQueryName)).deep.equal({ stage: 'done' });
    expect(await attributeOf(run, 'Stage')).equal('done');
  });

  it('succeeds when the document was deleted or replaced in the meantime', async () => {
    const { activities, names } = stubPreviews({ renderPreview: async () => null });
    const run = await preview(activities);
    expect(await run.result()).deep.equal({ pageCount: null });
    expect(names).deep.equal(['renderPreview', 'recordPreview']);
  });

  it('fails at once with its code when the file cannot be rendered', async () => {
    const { activities, names } = failing(appError('corrupt_document'));
    const run = await preview(activities);
    expect(await failureOf(run))
      .instanceOf(ApplicationFailure)
      .property('type', 'corrupt_document');
    expect(names).deep.equal(['renderPreview', 'recordPreviewFailure']);
    expect(await attributeOf(run, 'ErrorCode')).equal('corrupt_document');
  });

  it('retries when a service was unavailable', async () => {
    const { activities, names } = stubPreviews({
      renderPreview: async () => {
        failFirstAttempt(appError('service_unavailable', { retryAfterSeconds: 0.01 }));
        return { sizeBytes: 30_000, reused: true };
      },
    });
    const run = await preview(activities);
    await run.result();
    expect(names).deep.equal(['renderPreview', 'renderPreview', 'alignPages', 'recordPreview']);
  });

  it('is parked when only an operator can help, and continues on retry', async () => {
    const { activities, names, untilCalled } = failing(appError('blob_store_refused'));
    const run = await preview(activities);
    await untilCalled('recordParkedPreview');
    await run.executeUpdate(retryUpdateName);
    await run.result();
    const around = ['recordParkedPreview', 'recordResumedPreview'];
    expect(names).deep.equal(['renderPreview', ...around, 'renderPreview', 'alignPages', 'recordPreview']);
  });

  it('fails when an operator skips it', async () => {
    const { activities, names, untilCalled } = failing(appError('blob_store_refused'));
    const run = await preview(activities);
    await untilCalled('recordParkedPreview');
    await run.executeUpdate(skipUpdateName);
    expect(await failureOf(run))
      .instanceOf(ApplicationFailure)
      .property('type', 'skipped');
    expect(names.at(-1)).equal('recordPreviewFailure');
  });

  it('records its cancellation', async () => {
    const { activities, names, untilCalled } = failing(appError('blob_store_refused'));
    const run = await preview(activities);
    await untilCalled('recordParkedPreview');
    await run.cancel();
    expect(await failureOf(run)).instanceOf(CancelledFailure);
    expect(names.at(-1)).equal('recordPreviewCancellation');
  });
});
