import { CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import type { IngestionActivities } from '#activities/ingestion.ts';
import { appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/connection.ts';
import { type StandingWorker, standingWorker } from '#test/support/standing-worker.ts';
import { failFirstAttempt, stubIngestion, untilCancelled } from '#test/support/stub-activities.ts';
import { attributeOf, failureOf } from '#test/support/workflow-run.ts';

describe('ingestDocument of a small document', () => {
  let worker: StandingWorker;

  before(async () => {
    worker = await standingWorker();
  });

  const ingest = (activities: IngestionActivities) =>
    worker.start('ingestDocument', activities, {
      args: [{ orgId: 'org', documentId: 'document', generation: 1, isSmall: true }],
      typedSearchAttributes: searchAttributes({ OrgId: 'org', JobKind: 'ingest' }),
    });

  const converted = { charCount: 12, pageCount: null, reused: false };
  const eachStep = ['parseDocument', 'convertDocument', 'chunkDocument', 'embedChunks', 'activateGeneration'];

  it('takes all steps in one activity', async () => {
    const { activities, names } = stubIngestion();
    const run = await ingest(activities);
    expect(await run.result()).deep.equal({ chunks: 3 });
    expect(names).deep.equal(['ingestAtOnce']);
    expect(await attributeOf(run, 'Stage')).equal('done');
  });

  it('takes each step in its own activity after that one has failed, so that operators see which step fails', async () => {
    const { activities, names } = stubIngestion({
      ingestAtOnce: async () => {
        throw appError('model_unavailable');
      },
      embedChunks: async () => {
        failFirstAttempt(appError('model_unavailable', { retryAfterSeconds: 0.01 }));
        return { chunksEmbedded: 3 };
      },
    });
    const run = await ingest(activities);
    expect(await run.result()).deep.equal({ chunks: 3 });
    expect(names).deep.equal(['ingestAtOnce', ...eachStep.toSpliced(4, 0, 'embedChunks')]);
  });

  it('fails with the stage and the code of the step that failed', async () => {
    const refuse = async () => {
      throw appError('corrupt_document');
    };
    const { activities, names } = stubIngestion({ ingestAtOnce: refuse, convertDocument: refuse });
    const run = await ingest(activities);
    expect(await failureOf(run)).property('type', 'corrupt_document');
    expect(names).deep.equal(['ingestAtOnce', 'parseDocument', 'convertDocument', 'recordFailure']);
    expect(await attributeOf(run, 'Stage')).equal('convert');
  });

  it('takes the remaining steps one by one when the document has many chunks', async () => {
    const { activities, names } = stubIngestion({
      ingestAtOnce: async () => ({ converted, chunksTotal: 3_000, isDone: false }),
    });
    const run = await ingest(activities);
    expect(await run.result()).deep.equal({ chunks: 3_000 });
    expect(names).deep.equal(['ingestAtOnce', 'embedChunks', 'activateGeneration']);
  });

  it('records its cancellation', async () => {
    const { activities, names, untilCalled } = stubIngestion({ ingestAtOnce: untilCancelled });
    const run = await ingest(activities);
    await untilCalled('ingestAtOnce');
    await run.cancel();
    expect(await failureOf(run)).instanceOf(CancelledFailure);
    expect(names).deep.equal(['ingestAtOnce', 'recordCancellation']);
  });
});
