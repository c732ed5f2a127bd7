import { Context } from '@temporalio/activity';
import type { WorkflowHandle } from '@temporalio/client';
import { CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { heartbeating } from '#activities/heartbeating.ts';
import type { IngestionActivities } from '#activities/ingestion.ts';
import { appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/search-attributes.ts';
import { stubIngestion } from '#test/support/stub-ingestion.ts';
import { type TestWorkers, testWorkers } from '#test/support/test-workers.ts';
import { until } from '#test/support/until.ts';
import { attributeOf, failureOf } from '#test/support/workflow-run.ts';

describe('ingestDocument of a small document', function () {
  this.timeout(60_000);
  let temporal: TestWorkers;

  before(async () => {
    temporal = await testWorkers();
  });
  after(() => temporal.close());

  async function ingest(activities: IngestionActivities, use: (run: WorkflowHandle) => Promise<void>): Promise<void> {
    await temporal.withWorker(activities, async (taskQueue) => {
      const run = await temporal.client.workflow.start('ingestDocument', {
        workflowId: `test-${uuidv7()}`,
        taskQueue,
        args: [{ orgId: 'org', documentId: 'document', generation: 1, isSmall: true }],
        typedSearchAttributes: searchAttributes({ OrgId: 'org', JobKind: 'ingest' }),
      });
      await use(run);
    });
  }

  const converted = { charCount: 12, pageCount: null, reused: false };
  const eachStep = ['parseDocument', 'convertDocument', 'chunkDocument', 'embedChunks', 'activateGeneration'];

  it('takes all steps at once', async () => {
    const { activities, calls } = stubIngestion();
    await ingest(activities, async (run) => {
      expect(await run.result()).deep.equal({ chunks: 3 });
      expect(calls).deep.equal(['ingestAtOnce']);
      expect(await attributeOf(run, 'Stage')).equal('done');
    });
  });

  it('takes each step by itself once that has failed, so that operators see which it is', async () => {
    const { activities, calls } = stubIngestion({
      ingestAtOnce: async () => {
        throw appError('model_unavailable');
      },
      embedChunks: async () => {
        if (Context.current().info.attempt === 1) throw appError('model_unavailable');
        return { chunksEmbedded: 3 };
      },
    });
    await ingest(activities, async (run) => {
      expect(await run.result()).deep.equal({ chunks: 3 });
      expect(calls).deep.equal(['ingestAtOnce', ...eachStep.toSpliced(4, 0, 'embedChunks')]);
    });
  });

  it('fails in the stage, and with the code, of the step that fails', async () => {
    const refuse = async () => {
      throw appError('corrupt_document');
    };
    const { activities, calls } = stubIngestion({ ingestAtOnce: refuse, convertDocument: refuse });
    await ingest(activities, async (run) => {
      expect(await failureOf(run)).property('type', 'corrupt_document');
      expect(calls).deep.equal(['ingestAtOnce', 'parseDocument', 'convertDocument', 'recordFailure']);
      expect(await attributeOf(run, 'Stage')).equal('convert');
    });
  });

  it('goes on by itself where it turns out to be large', async () => {
    const { activities, calls } = stubIngestion({
      ingestAtOnce: async () => ({ converted, chunksTotal: 3_000, isDone: false }),
    });
    await ingest(activities, async (run) => {
      expect(await run.result()).deep.equal({ chunks: 3_000 });
      expect(calls).deep.equal(['ingestAtOnce', 'embedChunks', 'activateGeneration']);
    });
  });

  it('stops when it is cancelled, and records that', async () => {
    const { activities, calls } = stubIngestion({
      ingestAtOnce: () => heartbeating(() => Context.current().cancelled),
    });
    await ingest(activities, async (run) => {
      await until('it has begun', async () => calls.length > 0);
      await run.cancel();
      expect(await failureOf(run)).instanceOf(CancelledFailure);
      expect(calls).deep.equal(['ingestAtOnce', 'recordCancellation']);
    });
  });
});
