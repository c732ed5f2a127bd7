import { Context } from '@temporalio/activity';
import type { WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { heartbeating } from '#activities/heartbeating.ts';
import type { IngestionActivities } from '#activities/ingestion.ts';
import type { IngestionProgress } from '#src/contracts/ingestion.ts';
import { stageQueryName } from '#src/contracts/messages.ts';
import { appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/search-attributes.ts';
import { stubIngestion } from '#test/support/stub-ingestion.ts';
import { type TestWorkers, testWorkers } from '#test/support/test-workers.ts';
import { attributeOf, failureOf } from '#test/support/workflow-run.ts';

describe('ingestDocument', function () {
  this.timeout(60_000);
  let temporal: TestWorkers;

  before(async () => {
    temporal = await testWorkers();
  });
  after(() => temporal.close());

  const input = { orgId: 'org', documentId: 'document', generation: 1 };

  /** Runs the workflow over stub activities; `use` speaks to the run meanwhile. */
  async function ingest(activities: IngestionActivities, use: (run: WorkflowHandle) => Promise<void>): Promise<void> {
    await temporal.withWorker(activities, async (taskQueue) => {
      const run = await temporal.client.workflow.start('ingestDocument', {
        workflowId: `test-${uuidv7()}`,
        taskQueue,
        args: [input],
        memo: { attempt: 2 },
        typedSearchAttributes: searchAttributes({ OrgId: 'org', JobKind: 'ingest' }),
      });
      await use(run);
    });
  }

  it('takes every step once, in order, and tells where it stands', async () => {
    const { activities, calls } = stubIngestion();
    await ingest(activities, async (run) => {
      expect(await run.result()).deep.equal({ chunks: 3 });
      expect(calls).deep.equal([
        'parseDocument',
        'convertDocument',
        'chunkDocument',
        'embedChunks',
        'activateGeneration',
      ]);
      const progress: IngestionProgress = await run.query(stageQueryName);
      expect(progress).include({ stage: 'done', chunksTotal: 3 });
      expect(await attributeOf(run, 'Stage')).equal('done');
    });
  });

  it('has pages that are pictures read slice by slice, before anything is made of them', async () => {
    let pagesLeft = 3;
    const converted = { charCount: 12, pageCount: 3, reused: false };
    const { activities, calls } = stubIngestion({
      convertDocument: async () => (--pagesLeft > 0 ? { ...converted, pagesLeft } : converted),
    });
    await ingest(activities, async (run) => {
      expect(await run.result()).deep.equal({ chunks: 3 });
      expect(calls.filter((name) => name === 'convertDocument')).length(3);
      expect(calls.slice(-3)).deep.equal(['chunkDocument', 'embedChunks', 'activateGeneration']);
      expect(await run.query<IngestionProgress>(stageQueryName)).deep.include({ converted });
    });
  });

  it('has chunks situated slice by slice before they are stored, where a model is there for it', async () => {
    let chunksLeft = 3;
    const { activities, calls } = stubIngestion({
      convertDocument: async () => ({ charCount: 12, pageCount: null, reused: false, needsContexts: true }),
      situateChunks: async () => {
        if (Context.current().info.attempt === 1 && chunksLeft === 2) throw appError('model_unavailable');
        chunksLeft -= 1;
        return { chunksSituated: 3 - chunksLeft, chunksLeft };
      },
    });
    await ingest(activities, async (run) => {
      expect(await run.result()).deep.equal({ chunks: 3 });
      const [, , ...others] = calls;
      expect(others).deep.equal([
        ...Array(4).fill('situateChunks'),
        'chunkDocument',
        'embedChunks',
        'activateGeneration',
      ]);
    });
  });

  it('repeats a step whose service is down, and only that step', async () => {
    const { activities, calls } = stubIngestion({
      embedChunks: async () => {
        if (Context.current().info.attempt === 1) {
          throw appError('model_unavailable', { retryAfterSeconds: 0 });
        }
        return { chunksEmbedded: 3 };
      },
    });
    await ingest(activities, async (run) => {
      expect(await run.result()).deep.equal({ chunks: 3 });
      expect(calls.filter((name) => name === 'embedChunks')).length(2);
      expect(calls.filter((name) => name === 'convertDocument')).length(1);
      expect(calls).not.include('recordFailure');
    });
  });

  it('embeds slice by slice', async () => {
    let chunksLeft = 3;
    const { activities, calls } = stubIngestion({
      embedChunks: async () => {
        chunksLeft -= 1;
        return { chunksEmbedded: 3 - chunksLeft, chunksLeft };
      },
    });
    await ingest(activities, async (run) => {
      expect(await run.result()).deep.equal({ chunks: 3 });
      expect(calls.slice(3)).deep.equal(['embedChunks', 'embedChunks', 'embedChunks', 'activateGeneration']);
    });
  });

  it('embeds again what the vector store lost', async () => {
    let isFirst = true;
    const { activities, calls } = stubIngestion({
      activateGeneration: async () => {
        if (!isFirst) return;
        isFirst = false;
        throw appError('vectors_missing');
      },
    });
    await ingest(activities, async (run) => {
      expect(await run.result()).deep.equal({ chunks: 3 });
      expect(calls.slice(3)).deep.equal(['embedChunks', 'activateGeneration', 'embedChunks', 'activateGeneration']);
    });
  });

  it('gives up on a vector store that loses points again and again', async () => {
    const { activities, calls } = stubIngestion({
      activateGeneration: async () => {
        throw appError('vectors_missing');
      },
    });
    await ingest(activities, async (run) => {
      const failure = await failureOf(run);
      expect(failure).instanceOf(ApplicationFailure).property('type', 'vectors_missing');
      expect(categoryOf(failure)).not.equal('BENIGN');
      expect(calls.filter((name) => name === 'embedChunks')).length(3);
    });
  });

  it('ends with its own fault although that cannot be recorded', async () => {
    const { activities } = stubIngestion({
      convertDocument: async () => {
        throw appError('encrypted_document');
      },
      recordFailure: async () => {
        throw appError('document_not_found');
      },
    });
    await ingest(activities, async (run) => {
      expect(await failureOf(run))
        .instanceOf(ApplicationFailure)
        .property('type', 'encrypted_document');
    });
  });

  it('fails at once with the code of a permanent fault, and records it', async () => {
    const recorded: unknown[] = [];
    let codeBefore: unknown;
    const { activities, calls } = stubIngestion({
      convertDocument: async () => {
        throw appError('encrypted_document');
      },
      recordFailure: async (failure) => {
        const { workflowId = '' } = Context.current().info.workflowExecution ?? {};
        codeBefore = await attributeOf(temporal.client.workflow.getHandle(workflowId), 'ErrorCode');
        recorded.push(failure);
      },
    });
    await ingest(activities, async (run) => {
      const failure = await failureOf(run);
      expect(failure).instanceOf(ApplicationFailure).property('type', 'encrypted_document');
      expect(categoryOf(failure)).equal('BENIGN');
      expect(calls.filter((name) => name === 'convertDocument')).length(1);
      expect(recorded).deep.equal([
        { ...input, attempt: 2, error: { code: 'encrypted_document', message: 'The file is encrypted' } },
      ]);
      expect(codeBefore).equal(undefined);
      expect(await attributeOf(run, 'ErrorCode')).equal('encrypted_document');
      expect(await attributeOf(run, 'Stage')).equal('convert');
    });
  });

  it('keeps the text of an unknown error out of its history', async () => {
    const secret = 'insert into chunks values ($1) - confidential';
    const { activities } = stubIngestion({
      parseDocument: async () => {
        if (Context.current().info.attempt === 1) throw new TypeError(secret);
        return { sourceFormat: 'text', sizeBytes: 1 };
      },
    });
    await ingest(activities, async (run) => {
      await run.result();
      expect(JSON.stringify(await run.fetchHistory())).not.include('confidential');
    });
  });

  it('stops the step at work when it is cancelled, and records that', async () => {
    const { activities, calls } = stubIngestion({
      embedChunks: () => heartbeating(() => Context.current().cancelled),
    });
    await ingest(activities, async (run) => {
      for (;;) {
        const { stage } = await run.query<IngestionProgress>(stageQueryName);
        if (stage === 'embed') break;
      }
      await run.cancel();
      expect(await failureOf(run)).instanceOf(CancelledFailure);
      expect(calls.at(-1)).equal('recordCancellation');
      expect(calls).not.include('activateGeneration');
    });
  });
});

/** Of the step that failed a run. */
function categoryOf(failure: unknown): unknown {
  const step = failure instanceof ApplicationFailure ? failure.cause?.cause : undefined;
  return step instanceof ApplicationFailure ? step.category : undefined;
}
