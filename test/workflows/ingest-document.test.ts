import { Context } from '@temporalio/activity';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import type { IngestionActivities } from '#activities/ingestion.ts';
import type { IngestionProgress } from '#src/contracts/ingestion.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { appError } from '#src/errors.ts';
import { searchAttributes } from '#src/temporal/connection.ts';
import { type StandingWorker, standingWorker } from '#test/support/standing-worker.ts';
import { failFirstAttempt, stubIngestion, untilCancelled } from '#test/support/stub-activities.ts';
import { attributeOf, failureOf } from '#test/support/workflow-run.ts';

describe('ingestDocument', () => {
  let worker: StandingWorker;

  before(async () => {
    worker = await standingWorker();
  });

  const input = { orgId: 'org', documentId: 'document', generation: 1 };

  const ingest = (activities: IngestionActivities) =>
    worker.start('ingestDocument', activities, {
      args: [input],
      memo: { attempt: 2 },
      typedSearchAttributes: searchAttributes({ OrgId: 'org', JobKind: 'ingest' }),
    });

  it('takes every step once, in order, and shows its progress', async () => {
    const { activities, names } = stubIngestion();
    const run = await ingest(activities);
    expect(await run.result()).deep.equal({ chunks: 3 });
    expect(names).deep.equal([
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

  it('reads scanned pages slice by slice before it chunks the document', async () => {
    let pagesLeft = 3;
    const converted = { charCount: 12, pageCount: 3, reused: false };
    const { activities, names } = stubIngestion({
      convertDocument: async () => (--pagesLeft > 0 ? { ...converted, pagesLeft } : converted),
    });
    const run = await ingest(activities);
    expect(await run.result()).deep.equal({ chunks: 3 });
    expect(names.filter((name) => name === 'convertDocument')).length(3);
    expect(names.slice(-3)).deep.equal(['chunkDocument', 'embedChunks', 'activateGeneration']);
    expect(await run.query<IngestionProgress>(stageQueryName)).deep.include({ converted });
  });

  it('adds contexts to the chunks slice by slice before they are stored, when a model is configured', async () => {
    let chunksLeft = 3;
    const { activities, names } = stubIngestion({
      convertDocument: async () => ({ charCount: 12, pageCount: null, reused: false, needsContexts: true }),
      situateChunks: async () => {
        if (chunksLeft === 2) failFirstAttempt(appError('model_unavailable', { retryAfterSeconds: 0.01 }));
        chunksLeft -= 1;
        return { chunksSituated: 3 - chunksLeft, chunksLeft };
      },
    });
    const run = await ingest(activities);
    expect(await run.result()).deep.equal({ chunks: 3 });
    const [, , ...others] = names;
    expect(others).deep.equal([
      ...Array(4).fill('situateChunks'),
      'chunkDocument',
      'embedChunks',
      'activateGeneration',
    ]);
  });

  it('retries only the step whose service is down', async () => {
    const { activities, names } = stubIngestion({
      embedChunks: async () => {
        failFirstAttempt(appError('model_unavailable', { retryAfterSeconds: 0.01 }));
        return { chunksEmbedded: 3 };
      },
    });
    const run = await ingest(activities);
    expect(await run.result()).deep.equal({ chunks: 3 });
    expect(names.filter((name) => name === 'embedChunks')).length(2);
    expect(names.filter((name) => name === 'convertDocument')).length(1);
    expect(names).not.include('recordFailure');
  });

  it('embeds slice by slice', async () => {
    let chunksLeft = 3;
    const { activities, names } = stubIngestion({
      embedChunks: async () => {
        chunksLeft -= 1;
        return { chunksEmbedded: 3 - chunksLeft, chunksLeft };
      },
    });
    const run = await ingest(activities);
    expect(await run.result()).deep.equal({ chunks: 3 });
    expect(names.slice(3)).deep.equal(['embedChunks', 'embedChunks', 'embedChunks', 'activateGeneration']);
  });

  it('embeds again the vectors that the vector store has lost', async () => {
    const { activities, names } = stubIngestion({
      activateGeneration: async () => {
        const timesEmbedded = names.filter((name) => name === 'embedChunks').length;
        if (timesEmbedded === 1) throw appError('vectors_missing');
      },
    });
    const run = await ingest(activities);
    expect(await run.result()).deep.equal({ chunks: 3 });
    expect(names.slice(3)).deep.equal(['embedChunks', 'activateGeneration', 'embedChunks', 'activateGeneration']);
  });

  it('fails when the vector store loses points three times', async () => {
    const { activities, names } = stubIngestion({
      activateGeneration: async () => {
        throw appError('vectors_missing');
      },
    });
    const run = await ingest(activities);
    const failure = await failureOf(run);
    expect(failure).instanceOf(ApplicationFailure).property('type', 'vectors_missing');
    expect(categoryOf(failure)).not.equal('BENIGN');
    expect(names.filter((name) => name === 'embedChunks')).length(3);
  });

  it('fails with its own code when the failure cannot be recorded', async () => {
    const { activities } = stubIngestion({
      convertDocument: async () => {
        throw appError('encrypted_document');
      },
      recordFailure: async () => {
        throw appError('document_not_found');
      },
    });
    const run = await ingest(activities);
    expect(await failureOf(run))
      .instanceOf(ApplicationFailure)
      .property('type', 'encrypted_document');
  });

  it('fails at once with the code of a permanent fault and records it', async () => {
    const recorded: unknown[] = [];
    let codeBefore: unknown;
    const { activities, names } = stubIngestion({
      convertDocument: async () => {
        throw appError('encrypted_document');
      },
      recordFailure: async (failure) => {
        const { workflowId = '' } = Context.current().info.workflowExecution ?? {};
        codeBefore = await attributeOf(worker.client.workflow.getHandle(workflowId), 'ErrorCode');
        recorded.push(failure);
      },
    });
    const run = await ingest(activities);
    const failure = await failureOf(run);
    expect(failure).instanceOf(ApplicationFailure).property('type', 'encrypted_document');
    expect(categoryOf(failure)).equal('BENIGN');
    expect(names.filter((name) => name === 'convertDocument')).length(1);
    expect(recorded).deep.equal([
      { ...input, attempt: 2, error: { code: 'encrypted_document', message: 'The file is encrypted' } },
    ]);
    expect(codeBefore).equal(undefined);
    expect(await attributeOf(run, 'ErrorCode')).equal('encrypted_document');
    expect(await attributeOf(run, 'Stage')).equal('convert');
  });

  it('keeps the text of an unknown error out of its history', async () => {
    const secret = 'insert into chunks values ($1) - confidential';
    const { activities } = stubIngestion({
      parseDocument: async () => {
        failFirstAttempt(new TypeError(secret));
        return { sourceFormat: 'text', sizeBytes: 1 };
      },
    });
    const run = await ingest(activities);
    await run.result();
    expect(JSON.stringify(await run.fetchHistory())).not.include('confidential');
  });

  it('cancels the step in progress and records its cancellation', async () => {
    const { activities, names, untilCalled } = stubIngestion({ embedChunks: untilCancelled });
    const run = await ingest(activities);
    await untilCalled('embedChunks');
    expect(await run.query<IngestionProgress>(stageQueryName)).include({ stage: 'embed' });
    await run.cancel();
    expect(await failureOf(run)).instanceOf(CancelledFailure);
    expect(names.at(-1)).equal('recordCancellation');
    expect(names).not.include('activateGeneration');
  });
});

/** @returns the category of the failed activity */
function categoryOf(failure: unknown): unknown {
  const step = failure instanceof ApplicationFailure ? failure.cause?.cause : undefined;
  return step instanceof ApplicationFailure ? step.category : undefined;
}
