import { randomUUID } from 'node:crypto';
import type { WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import type { IngestionActivities } from '#activities/ingestion.ts';
import type { IngestionProgress } from '#src/contracts/ingestion.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import { appError } from '#src/errors.ts';
import type { Orchestrator } from '#src/ports/orchestrator.ts';
import { searchAttributes } from '#src/temporal/connection.ts';
import { createOrchestrator } from '#src/temporal/orchestrator.ts';
import { type StandingWorker, standingWorker } from '#test/support/standing-worker.ts';
import { stubIngestion } from '#test/support/stub-activities.ts';
import { attributeOf, detailsOf, failureOf } from '#test/support/workflow-run.ts';

describe('an ingestion of many slices', () => {
  let worker: StandingWorker;
  let orchestrator: Orchestrator;

  before(async () => {
    worker = await standingWorker();
    orchestrator = createOrchestrator(worker.temporal, { uiUrl: null });
  });

  const input = { orgId: 'org', documentId: 'document', generation: 1 };
  const summary = 'Ingest document document, generation 1';

  /** Starts it with the options that the gateway uses. */
  const ingest = (activities: IngestionActivities) =>
    worker.start('ingestDocument', activities, {
      args: [input],
      memo: { attempt: 2, startId: 'start-2', summary },
      staticSummary: summary,
      priority: { priorityKey: 4, fairnessKey: 'org' },
      typedSearchAttributes: searchAttributes({ OrgId: 'org', DocumentId: 'document', JobKind: 'ingest' }),
    });

  const slices = 55;
  /** Embeds all slices and names `during` in each. */
  function embedding(during: (slice: number) => unknown = () => undefined): IngestionActivities['embedChunks'] {
    let slice = 0;
    return async () => {
      await during(slice + 1);
      slice += 1;
      return { chunksEmbedded: slice, chunksLeft: slices - slice };
    };
  }
  const runIdOf = async (run: WorkflowHandle) => (await run.describe()).runId;

  it('continues in a new history with its memo, priority, attributes and progress', async () => {
    const held = Promise.withResolvers<void>();
    const { activities, names, untilCalled } = stubIngestion({
      embedChunks: embedding((slice) => slice === slices && held.promise),
    });
    const run = await ingest(activities);
    await untilCalled('embedChunks', slices);
    expect(await runIdOf(run)).not.equal(run.firstExecutionRunId);
    const { memo, priority, typedSearchAttributes, status } = await run.describe();
    expect(status.name).equal('RUNNING');
    expect(memo).deep.include({ attempt: 2, startId: 'start-2' });
    expect(priority).deep.include({ priorityKey: 4, fairnessKey: 'org' });
    const attributes = typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]);
    expect(Object.fromEntries(attributes)).include({
      OrgId: 'org',
      DocumentId: 'document',
      JobKind: 'ingest',
      Stage: 'embed',
    });
    expect(await detailsOf(run)).include(`${summary}\n\nEmbedding 3 chunks`);
    expect(await run.query<IngestionProgress>(stageQueryName)).include({ stage: 'embed', chunksTotal: 3 });
    expect(await orchestrator.inspect(run.workflowId)).deep.equal({ state: 'open' });

    held.resolve();
    expect(await run.result()).deep.equal({ chunks: 3 });
    const others = names.filter((name) => name !== 'embedChunks');
    expect(others).deep.equal(['parseDocument', 'convertDocument', 'chunkDocument', 'activateGeneration']);
    expect(await orchestrator.describe(run.workflowId)).equal('completed');
  });

  it('continues in a new history while it adds windows and contexts', async () => {
    let windowsLeft = 30;
    let chunksLeft = 30;
    const { activities, names } = stubIngestion({
      convertDocument: async () => ({
        charCount: 12,
        pageCount: null,
        reused: false,
        needsWindows: true,
        needsContexts: true,
      }),
      embedWindows: async () => ({ windowsEmbedded: 1, windowsLeft: Math.max(0, --windowsLeft) }),
      situateChunks: async () => ({ chunksSituated: 1, chunksLeft: --chunksLeft }),
    });
    const run = await ingest(activities);
    expect(await run.result()).deep.equal({ chunks: 3 });
    expect(await runIdOf(run)).not.equal(run.firstExecutionRunId);
    expect(names.filter((name) => name === 'convertDocument')).length(1);
    expect(names.filter((name) => name === 'situateChunks')).length(30);
    expect(names.slice(-3)).deep.equal(['chunkDocument', 'embedChunks', 'activateGeneration']);
  });

  it('can be cancelled in a new history and records it for the attempt that started it', async () => {
    const recorded: unknown[] = [];
    const held = Promise.withResolvers<void>();
    const { activities, names, untilCalled } = stubIngestion({
      embedChunks: embedding((slice) => slice === slices && held.promise),
      recordCancellation: async (end) => void recorded.push(end),
    });
    const run = await ingest(activities);
    await untilCalled('embedChunks', slices);
    expect(await runIdOf(run)).not.equal(run.firstExecutionRunId);
    await orchestrator.cancel(run.workflowId);
    held.resolve();
    expect(await failureOf(run)).instanceOf(CancelledFailure);
    expect(recorded).deep.equal([{ ...input, attempt: 2, startId: 'start-2' }]);
    expect(names).not.include('activateGeneration');
    expect(await orchestrator.describe(run.workflowId)).equal('cancelled');
  });

  it('is parked in a new history and continues on retry', async () => {
    let isRefused = true;
    const { activities, untilCalled } = stubIngestion({
      embedChunks: embedding((slice) => {
        if (slice === slices && isRefused) throw appError('model_not_configured');
      }),
    });
    const run = await ingest(activities);
    await untilCalled('recordParked');
    expect(await orchestrator.inspect(run.workflowId)).property('state', 'parked');
    expect(await runIdOf(run)).not.equal(run.firstExecutionRunId);
    isRefused = false;
    expect(await orchestrator.retryParked(run.workflowId)).equal('moved');
    expect(await run.result()).deep.equal({ chunks: 3 });
    expect(await attributeOf(run, 'ErrorCode')).equal(undefined);
  });

  it('can be reset to the start of its last history', async () => {
    let isRefused = true;
    const { activities, names } = stubIngestion({
      embedChunks: embedding((slice) => {
        if (slice === slices && isRefused) throw appError('model_rejected');
      }),
    });
    const run = await ingest(activities);
    expect(await failureOf(run)).property('type', 'model_rejected');
    isRefused = false;
    const runId = await runIdOf(run);
    const { events } = await worker.client.workflow.getHandle(run.workflowId, runId).fetchHistory();
    const first = events?.find((event) => event.workflowTaskCompletedEventAttributes);
    await worker.client.workflowService.resetWorkflowExecution({
      namespace: worker.client.options.namespace,
      workflowExecution: { workflowId: run.workflowId, runId },
      reason: 'The provider works again.',
      requestId: randomUUID(),
      workflowTaskFinishEventId: first?.eventId ?? null,
    });
    expect(await worker.client.workflow.getHandle(run.workflowId).result()).deep.equal({ chunks: 3 });
    expect(names.filter((name) => name === 'chunkDocument')).length(1);
  });

  it('counts lost vectors across histories and fails at the third loss', async () => {
    let chunksLeft = 0;
    const { activities, names } = stubIngestion({
      embedChunks: async () => {
        chunksLeft = (chunksLeft || 20) - 1;
        return { chunksEmbedded: 20 - chunksLeft, chunksLeft };
      },
      activateGeneration: async () => {
        throw appError('vectors_missing');
      },
    });
    const run = await ingest(activities);
    expect(await failureOf(run)).property('type', 'vectors_missing');
    expect(await runIdOf(run)).not.equal(run.firstExecutionRunId);
    expect(names.filter((name) => name === 'activateGeneration')).length(3);
  });

  const cases: [keyof IngestionActivities, Partial<IngestionActivities>][] = [
    ['embedWindows', { embedWindows: async () => ({ windowsEmbedded: 0, windowsLeft: 5 }) }],
    ['situateChunks', { situateChunks: async () => ({ chunksSituated: 0, chunksLeft: 5 }) }],
    ['embedChunks', { embedChunks: async () => ({ chunksEmbedded: 0, chunksLeft: 5 }) }],
  ];
  for (const [step, replaced] of cases) {
    it(`fails with no_progress when ${step} succeeds without progress`, async () => {
      const recorded: unknown[] = [];
      const { activities, names } = stubIngestion({
        convertDocument: async () => ({
          charCount: 12,
          pageCount: null,
          reused: false,
          needsWindows: step === 'embedWindows',
          needsContexts: step === 'situateChunks',
        }),
        recordFailure: async ({ error }) => void recorded.push(error.code),
        ...replaced,
      });
      const run = await ingest(activities);
      expect(await failureOf(run))
        .instanceOf(ApplicationFailure)
        .property('type', 'no_progress');
      expect(names.filter((name) => name === step)).length(2);
      expect(recorded).deep.equal(['no_progress']);
      expect(await attributeOf(run, 'ErrorCode')).equal('no_progress');
    });
  }
});
