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

const input = { orgId: 'org', documentId: 'document', generation: 1 };
const converted = { charCount: 12, pageCount: null, reused: false };
const eachStep = ['parseDocument', 'convertDocument', 'chunkDocument', 'embedChunks', 'activateGeneration'];
const unavailable = () => appError('model_unavailable', { retryAfterSeconds: 0.01 });

async function start(activities: IngestionActivities, args: object = input) {
  const worker: StandingWorker = await standingWorker();
  return worker.start('ingestDocument', activities, {
    args: [args],
    memo: { attempt: 2 },
    typedSearchAttributes: searchAttributes({ OrgId: 'org', JobKind: 'ingest' }),
  });
}

describe('ingestDocument of a large document', () => {
  /** Returns the results one by one; with a result `null` the first attempt fails. */
  function slices<Result>(results: (Result | null)[]): () => Promise<Result> {
    const left = [...results];
    return async () => {
      if (left[0] === null) {
        left.shift();
        throw unavailable();
      }
      const result = left.shift();
      if (result == null) throw new Error('There are no more slices.');
      return result;
    };
  }
  const whole = { convertDocument: 1, situateChunks: 0, chunkDocument: 1, embedChunks: 1 };
  const cases: [title: string, stubs: Partial<IngestionActivities>, calls: Partial<Record<string, number>>][] = [
    [
      'reads scanned pages slice by slice before it chunks the document',
      { convertDocument: slices([{ ...converted, pagesLeft: 2 }, { ...converted, pagesLeft: 1 }, converted]) },
      { convertDocument: 3 },
    ],
    [
      'adds contexts to the chunks slice by slice before they are stored, and repeats only the failed slice',
      {
        convertDocument: async () => ({ ...converted, needsContexts: true }),
        situateChunks: slices([
          { chunksSituated: 1, chunksLeft: 2 },
          null,
          { chunksSituated: 2, chunksLeft: 1 },
          { chunksSituated: 3, chunksLeft: 0 },
        ]),
      },
      { situateChunks: 4 },
    ],
    [
      'embeds the chunks slice by slice',
      { embedChunks: slices([2, 1, 0].map((chunksLeft) => ({ chunksEmbedded: 3 - chunksLeft, chunksLeft }))) },
      { embedChunks: 3 },
    ],
  ];
  for (const [title, stubs, calls] of cases) {
    it(title, async () => {
      const { activities, names } = stubIngestion(stubs);
      const run = await start(activities);
      expect(await run.result()).deep.equal({ chunks: 3 });
      const expected = Object.entries({ ...whole, ...calls }).flatMap(([name, times]) => Array(times).fill(name));
      expect(names).deep.equal(['parseDocument', ...expected, 'activateGeneration']);
      expect(await run.query<IngestionProgress>(stageQueryName)).include({ stage: 'done', chunksTotal: 3 });
    });
  }

  it('embeds chunks again whose vectors the vector store has lost, and fails at the third loss', async () => {
    for (const losses of [1, 3]) {
      const { activities, names } = stubIngestion({
        activateGeneration: async () => {
          if (names.filter((name) => name === 'embedChunks').length <= losses) throw appError('vectors_missing');
        },
      });
      const run = await start(activities);
      if (losses === 1) expect(await run.result()).deep.equal({ chunks: 3 });
      else {
        const failure = await failureOf(run);
        expect(failure).instanceOf(ApplicationFailure).property('type', 'vectors_missing');
        expect(categoryOf(failure)).not.equal('BENIGN');
      }
      expect(names.filter((name) => name === 'embedChunks')).length(Math.min(losses + 1, 3));
    }
  });

  it('records a permanent error of the document before the run fails, and marks the failure as benign for Temporal', async () => {
    const recorded: unknown[] = [];
    let codeBefore: unknown;
    const { activities } = stubIngestion({
      convertDocument: async () => {
        throw appError('encrypted_document');
      },
      recordFailure: async (failure) => {
        const { workflowId = '' } = Context.current().info.workflowExecution ?? {};
        const run = (await standingWorker()).client.workflow.getHandle(workflowId);
        codeBefore = await attributeOf(run, 'ErrorCode');
        recorded.push(failure);
      },
    });
    const run = await start(activities);
    expect(categoryOf(await failureOf(run))).equal('BENIGN');
    const error = { code: 'encrypted_document', message: 'The file is encrypted' };
    expect(recorded).deep.equal([{ ...input, attempt: 2, error }]);
    expect(codeBefore).equal(undefined);
    expect(await attributeOf(run, 'Stage')).equal('convert');
  });

  it('fails with the code of the original error when the failure cannot be recorded', async () => {
    const { activities } = stubIngestion({
      convertDocument: async () => {
        throw appError('encrypted_document');
      },
      recordFailure: async () => {
        throw appError('document_not_found');
      },
    });
    expect(await failureOf(await start(activities))).property('type', 'encrypted_document');
  });

  it('keeps the text of an unknown error out of its history', async () => {
    const { activities } = stubIngestion({
      parseDocument: async () => {
        failFirstAttempt(new TypeError('insert into chunks values ($1) - confidential'));
        return { sourceFormat: 'text', sizeBytes: 1 };
      },
    });
    const run = await start(activities);
    await run.result();
    expect(JSON.stringify(await run.fetchHistory())).not.include('confidential');
  });

  it('cancels the step in progress and records that the run was cancelled', async () => {
    const { activities, names, untilCalled } = stubIngestion({ embedChunks: untilCancelled });
    const run = await start(activities);
    await untilCalled('embedChunks');
    expect(await run.query<IngestionProgress>(stageQueryName)).include({ stage: 'embed' });
    await run.cancel();
    expect(await failureOf(run)).instanceOf(CancelledFailure);
    expect(names).deep.equal([...eachStep.slice(0, -1), 'recordCancellation']);
  });
});

describe('ingestDocument of a small document', () => {
  const small = { ...input, isSmall: true };

  it('runs all steps in one activity, and the last steps in their own activities if there are many chunks', async () => {
    const cases = [
      { chunksTotal: 3, isDone: true, steps: ['ingestAtOnce'] },
      { chunksTotal: 3_000, isDone: false, steps: ['ingestAtOnce', 'embedChunks', 'activateGeneration'] },
    ];
    for (const { steps, ...answer } of cases) {
      const { activities, names } = stubIngestion({ ingestAtOnce: async () => ({ converted, ...answer }) });
      const run = await start(activities, small);
      expect(await run.result()).deep.equal({ chunks: answer.chunksTotal });
      expect(names).deep.equal(steps);
      expect(await attributeOf(run, 'Stage')).equal('done');
    }
  });

  it('runs each step in its own activity once the combined activity has failed, to show which step fails', async () => {
    const { activities, names } = stubIngestion({
      ingestAtOnce: async () => {
        throw appError('model_unavailable');
      },
      embedChunks: async () => {
        failFirstAttempt(unavailable());
        return { chunksEmbedded: 3 };
      },
    });
    expect(await (await start(activities, small)).result()).deep.equal({ chunks: 3 });
    expect(names).deep.equal(['ingestAtOnce', ...eachStep.toSpliced(4, 0, 'embedChunks')]);
  });

  it('fails with the stage and the code of the step that failed', async () => {
    const refuse = async () => {
      throw appError('corrupt_document');
    };
    const { activities, names } = stubIngestion({ ingestAtOnce: refuse, convertDocument: refuse });
    const run = await start(activities, small);
    expect(await failureOf(run)).property('type', 'corrupt_document');
    expect(names).deep.equal(['ingestAtOnce', 'parseDocument', 'convertDocument', 'recordFailure']);
    expect(await attributeOf(run, 'Stage')).equal('convert');
  });

  it('records that the run was cancelled', async () => {
    const { activities, names, untilCalled } = stubIngestion({ ingestAtOnce: untilCancelled });
    const run = await start(activities, small);
    await untilCalled('ingestAtOnce');
    await run.cancel();
    expect(await failureOf(run)).instanceOf(CancelledFailure);
    expect(names).deep.equal(['ingestAtOnce', 'recordCancellation']);
  });
});

/** @returns the category of the failed activity */
function categoryOf(failure: unknown): unknown {
  const step = failure instanceof ApplicationFailure ? failure.cause?.cause : undefined;
  return step instanceof ApplicationFailure ? step.category : undefined;
}
