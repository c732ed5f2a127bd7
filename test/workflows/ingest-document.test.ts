import { Context } from '@temporalio/activity';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import type { ImportArchiveResult } from '#src/contracts/ingestion.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { appError } from '#src/errors.ts';
import {
  type Activities,
  converted,
  failFirstAttempt,
  stubActivities,
  untilCancelled,
} from '#test/support/stub-activities.ts';
import { standingWorker, startRun } from '#test/support/test-workers.ts';
import { attributeOf, failureOf } from '#test/support/workflow-run.ts';

const input = { orgId: 'org', documentId: 'document', generation: 1 };
const eachStep = ['parseDocument', 'convertDocument', 'chunkDocument', 'embedChunks', 'activateGeneration'];
const unavailable = () => appError('model_unavailable', { retryAfterSeconds: 0.01 });
const fail = async () => {
  throw appError('encrypted_document');
};

describe('ingestDocument of a large document', () => {
  const ingest = (stub: ReturnType<typeof stubActivities>) => startRun('ingestDocument', stub, input);

  /** Returns the results one by one; with a result `null` the first attempt fails. */
  function slices<Result>(...left: (Result | null)[]): () => Promise<Result> {
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
  const imported: ImportArchiveResult = { next: null, files: 2, skippedCount: 0, skipped: [] };
  const situated = (chunksSituated: number) => ({ chunksSituated, chunksLeft: 3 - chunksSituated });
  const cases: [title: string, stubs: Partial<Activities>, calls: Partial<Record<string, number>>][] = [
    [
      'imports the files of an archive slice by slice before it converts the list of them',
      {
        parseDocument: async () => ({ sourceFormat: 'archive', sizeBytes: 12 }),
        importArchive: slices({ ...imported, next: 2 }, null, imported),
      },
      { importArchive: 3 },
    ],
    [
      'reads scanned pages slice by slice before it chunks the document',
      { convertDocument: slices({ ...converted, pagesLeft: 2 }, { ...converted, pagesLeft: 1 }, converted) },
      { convertDocument: 3 },
    ],
    [
      'adds contexts to the chunks slice by slice before they are stored, and repeats only the failed slice',
      {
        convertDocument: async () => ({ ...converted, needsContexts: true }),
        situateChunks: slices(situated(1), null, situated(2), situated(3)),
      },
      { situateChunks: 4 },
    ],
    [
      'embeds the chunks slice by slice',
      { embedChunks: slices(...[2, 1, 0].map((chunksLeft) => ({ chunksEmbedded: 3 - chunksLeft, chunksLeft }))) },
      { embedChunks: 3 },
    ],
  ];
  for (const [title, stubs, calls] of cases) {
    it(title, async () => {
      const stub = stubActivities(stubs);
      const run = await ingest(stub);
      expect(await run.result()).deep.equal({ chunks: 3 });
      const times = {
        importArchive: 0,
        convertDocument: 1,
        situateChunks: 0,
        chunkDocument: 1,
        embedChunks: 1,
        ...calls,
      };
      const expected = Object.entries(times).flatMap(([name, count]) => Array(count).fill(name));
      expect(stub.names).deep.equal(['parseDocument', ...expected, 'activateGeneration']);
      expect(await run.query(stageQueryName)).include({ stage: 'done', chunksTotal: 3 });
    });
  }

  it('embeds chunks again whose vectors the vector store has lost, and fails at the third loss', async () => {
    for (const losses of [1, 3]) {
      const stub = stubActivities({
        activateGeneration: async () => {
          if (stub.timesOf('embedChunks') <= losses) throw appError('vectors_missing');
        },
      });
      const run = await ingest(stub);
      if (losses === 1) expect(await run.result()).deep.equal({ chunks: 3 });
      else {
        const failure = await failureOf(run);
        expect(failure).property('type', 'vectors_missing');
        expect(categoryOf(failure)).not.equal('BENIGN');
      }
      expect(stub.timesOf('embedChunks')).equal(Math.min(losses + 1, 3));
    }
  });

  it('records a permanent error of the document before the run fails, and marks the failure as benign for Temporal', async () => {
    let codeBefore: unknown;
    const stub = stubActivities({
      convertDocument: fail,
      recordFailure: async () => {
        const { workflowId = '' } = Context.current().info.workflowExecution ?? {};
        codeBefore = await attributeOf((await standingWorker()).client.workflow.getHandle(workflowId), 'ErrorCode');
      },
    });
    const run = await ingest(stub);
    expect(categoryOf(await failureOf(run))).equal('BENIGN');
    const error = { code: 'encrypted_document', message: 'The file is encrypted' };
    expect(stub.calls.at(-1)).deep.equal({ name: 'recordFailure', input: { ...input, attempt: 2, error } });
    expect(codeBefore).equal(undefined);
    expect(await attributeOf(run, 'Stage')).equal('convert');
  });

  it('fails with the code of the original error when the failure cannot be recorded', async () => {
    const recordFailure = async () => {
      throw appError('document_not_found');
    };
    const run = await ingest(stubActivities({ convertDocument: fail, recordFailure }));
    expect(await failureOf(run)).property('type', 'encrypted_document');
  });

  it('keeps the text of an unknown error out of its history', async () => {
    const parseDocument = async () => {
      failFirstAttempt(new TypeError('insert into chunks values ($1) - confidential'));
      return { sourceFormat: 'text', sizeBytes: 1 };
    };
    const run = await ingest(stubActivities({ parseDocument }));
    await run.result();
    expect(JSON.stringify(await run.fetchHistory())).not.include('confidential');
  });
});

describe('ingestDocument of a small document', () => {
  const ingest = (stub: ReturnType<typeof stubActivities>) =>
    startRun('ingestDocument', stub, { ...input, isSmall: true });

  it('runs all steps in one activity, and the last steps in their own activities if there are many chunks', async () => {
    const cases = [
      { chunksTotal: 3, isDone: true, steps: ['ingestAtOnce'] },
      { chunksTotal: 3_000, isDone: false, steps: ['ingestAtOnce', 'embedChunks', 'activateGeneration'] },
    ];
    for (const { steps, ...answer } of cases) {
      const stub = stubActivities({ ingestAtOnce: async () => ({ converted, ...answer }) });
      const run = await ingest(stub);
      expect(await run.result()).deep.equal({ chunks: answer.chunksTotal });
      expect(stub.names).deep.equal(steps);
      expect(await attributeOf(run, 'Stage')).equal('done');
    }
  });

  it('runs each step in its own activity once the combined activity has failed, to show which step fails', async () => {
    const stub = stubActivities({
      ingestAtOnce: async () => {
        throw appError('model_unavailable');
      },
      embedChunks: async () => {
        failFirstAttempt(unavailable());
        return { chunksEmbedded: 3 };
      },
    });
    expect(await (await ingest(stub)).result()).deep.equal({ chunks: 3 });
    expect(stub.names).deep.equal(['ingestAtOnce', ...eachStep.toSpliced(4, 0, 'embedChunks')]);
  });

  it('fails without repeating any step when the document itself is the reason', async () => {
    const stub = stubActivities({ ingestAtOnce: fail });
    const run = await ingest(stub);
    expect(await failureOf(run)).property('type', 'encrypted_document');
    expect(stub.names).deep.equal(['ingestAtOnce', 'recordFailure']);
    expect((await run.fetchHistory()).events).length(19);
  });
});

it('ingestDocument cancels the step in progress and records that the run was cancelled', async () => {
  for (const [isSmall, step] of [
    [true, 'ingestAtOnce'],
    [false, 'embedChunks'],
  ] as const) {
    const stub = stubActivities({ [step]: untilCancelled });
    const run = await startRun('ingestDocument', stub, { ...input, isSmall });
    await stub.untilCalled(step);
    if (!isSmall) expect(await run.query(stageQueryName)).include({ stage: 'embed' });
    await run.cancel();
    expect(await failureOf(run)).instanceOf(CancelledFailure);
    expect(stub.names).deep.equal([...(isSmall ? [step] : eachStep.slice(0, -1)), 'recordCancellation']);
  }
});

/** @returns the category of the failed activity */
function categoryOf(failure: unknown): unknown {
  const step = failure instanceof ApplicationFailure ? failure.cause?.cause : undefined;
  return step instanceof ApplicationFailure ? step.category : undefined;
}
