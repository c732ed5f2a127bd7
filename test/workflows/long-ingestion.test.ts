import { randomUUID } from 'node:crypto';
import type { WorkflowHandleWithFirstExecutionRunId } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import type { IngestionActivities } from '#activities/ingestion.ts';
import type { IngestionProgress } from '#src/contracts/ingestion.ts';
import { stageQueryName } from '#src/contracts/messages.ts';
import { appError } from '#src/errors.ts';
import type { Orchestrator } from '#src/ports/orchestrator.ts';
import type { TemporalConnection } from '#src/temporal/connection.ts';
import { createOrchestrator } from '#src/temporal/gateway.ts';
import { searchAttributes } from '#src/temporal/search-attributes.ts';
import { testServices } from '#test/support/services.ts';
import { stubIngestion } from '#test/support/stub-ingestion.ts';
import { connectToTemporal } from '#test/support/temporal-client.ts';
import { type TestWorkers, testWorkers } from '#test/support/test-workers.ts';
import { until } from '#test/support/until.ts';
import { attributeOf, detailsOf, failureOf } from '#test/support/workflow-run.ts';

type Run = WorkflowHandleWithFirstExecutionRunId;

describe('an ingestion of many slices', function () {
  this.timeout(90_000);
  let temporal: TestWorkers;
  let connection: TemporalConnection;
  let orchestrator: Orchestrator;

  before(async () => {
    temporal = await testWorkers();
    connection = connectToTemporal({ address: testServices().temporalAddress, namespace: 'default' });
    orchestrator = createOrchestrator(connection, { uiUrl: null });
  });
  after(async () => {
    await connection.close();
    await temporal.close();
  });

  const input = { orgId: 'org', documentId: 'document', generation: 1 };
  const summary = 'Ingest document document, generation 1';

  /** As the gateway starts it, on a queue of its own. */
  async function ingest(activities: IngestionActivities, use: (run: Run) => Promise<void>): Promise<void> {
    await temporal.withWorker(activities, async (taskQueue) => {
      const run = await temporal.client.workflow.start('ingestDocument', {
        workflowId: `test-${uuidv7()}`,
        taskQueue,
        args: [input],
        memo: { attempt: 2, startId: 'start-2', summary },
        staticSummary: summary,
        priority: { priorityKey: 4, fairnessKey: 'org' },
        typedSearchAttributes: searchAttributes({ OrgId: 'org', DocumentId: 'document', JobKind: 'ingest' }),
      });
      await use(run);
    });
  }

  const slices = 55;
  const patienceMs = 45_000;
  /** Embeds that many slices; `during` is called at each. */
  function embedding(during: (slice: number) => unknown = () => undefined): IngestionActivities['embedChunks'] {
    let slice = 0;
    return async () => {
      await during(slice + 1);
      slice += 1;
      return { chunksEmbedded: slice, chunksLeft: slices - slice };
    };
  }
  const gate = () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    return { promise, open: resolve };
  };
  const runIdOf = async (run: Run) => (await run.describe()).runId;
  const untilContinued = (run: Run) =>
    until('it goes on in a new history', async () => (await runIdOf(run)) !== run.firstExecutionRunId, patienceMs);

  it('goes on in a new history, and leaves nothing of what is known of it in the old one', async () => {
    const held = gate();
    const { activities, calls } = stubIngestion({
      embedChunks: embedding((slice) => slice === slices && held.promise),
    });
    await ingest(activities, async (run) => {
      await until(
        'its last slice is at work',
        async () => calls.filter((name) => name === 'embedChunks').length === slices,
        patienceMs,
      );
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

      held.open();
      expect(await run.result()).deep.equal({ chunks: 3 });
      const others = calls.filter((name) => name !== 'embedChunks');
      expect(others).deep.equal(['parseDocument', 'convertDocument', 'chunkDocument', 'activateGeneration']);
      expect(await orchestrator.describe(run.workflowId)).equal('completed');
    });
  });

  it('takes up in the new history the slices before the cut, too', async () => {
    let windowsLeft = 30;
    let chunksLeft = 30;
    const { activities, calls } = stubIngestion({
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
    await ingest(activities, async (run) => {
      expect(await run.result()).deep.equal({ chunks: 3 });
      expect(await runIdOf(run)).not.equal(run.firstExecutionRunId);
      expect(calls.filter((name) => name === 'convertDocument')).length(1);
      expect(calls.filter((name) => name === 'situateChunks')).length(30);
      expect(calls.slice(-3)).deep.equal(['chunkDocument', 'embedChunks', 'activateGeneration']);
    });
  });

  it('is cancelled there as anywhere, and records it for the attempt that started it', async () => {
    const recorded: unknown[] = [];
    const held = gate();
    const { activities, calls } = stubIngestion({
      embedChunks: embedding((slice) => slice === slices && held.promise),
      recordCancellation: async (end) => void recorded.push(end),
    });
    await ingest(activities, async (run) => {
      await untilContinued(run);
      await orchestrator.cancel(run.workflowId);
      held.open();
      expect(await failureOf(run)).instanceOf(CancelledFailure);
      expect(recorded).deep.equal([{ ...input, attempt: 2, startId: 'start-2' }]);
      expect(calls).not.include('activateGeneration');
      expect(await orchestrator.describe(run.workflowId)).equal('cancelled');
    });
  });

  it('is parked there, and goes on when somebody says so', async () => {
    let isRefused = true;
    const { activities } = stubIngestion({
      embedChunks: embedding((slice) => {
        if (slice === slices && isRefused) throw appError('model_not_configured');
      }),
    });
    await ingest(activities, async (run) => {
      const isParked = async () => (await orchestrator.inspect(run.workflowId)).state === 'parked';
      await until('it is parked', isParked, patienceMs);
      expect(await runIdOf(run)).not.equal(run.firstExecutionRunId);
      isRefused = false;
      expect(await orchestrator.retryParked(run.workflowId)).equal('moved');
      expect(await run.result()).deep.equal({ chunks: 3 });
      expect(await attributeOf(run, 'ErrorCode')).equal(undefined);
    });
  });

  it('can be reset to the beginning of its last history', async () => {
    let isRefused = true;
    const { activities, calls } = stubIngestion({
      embedChunks: embedding((slice) => {
        if (slice === slices && isRefused) throw appError('model_rejected');
      }),
    });
    await ingest(activities, async (run) => {
      expect(await failureOf(run)).property('type', 'model_rejected');
      isRefused = false;
      const runId = await runIdOf(run);
      const { events } = await temporal.client.workflow.getHandle(run.workflowId, runId).fetchHistory();
      const first = events?.find((event) => event.workflowTaskCompletedEventAttributes);
      await temporal.client.workflowService.resetWorkflowExecution({
        namespace: temporal.client.options.namespace,
        workflowExecution: { workflowId: run.workflowId, runId },
        reason: 'The provider is mended.',
        requestId: randomUUID(),
        workflowTaskFinishEventId: first?.eventId ?? null,
      });
      expect(await temporal.client.workflow.getHandle(run.workflowId).result()).deep.equal({ chunks: 3 });
      expect(calls.filter((name) => name === 'chunkDocument')).length(1);
    });
  });

  it('gives up on a vector store that loses points again and again, in whichever history', async () => {
    let chunksLeft = 0;
    const { activities, calls } = stubIngestion({
      embedChunks: async () => {
        chunksLeft = (chunksLeft || 20) - 1;
        return { chunksEmbedded: 20 - chunksLeft, chunksLeft };
      },
      activateGeneration: async () => {
        throw appError('vectors_missing');
      },
    });
    await ingest(activities, async (run) => {
      expect(await failureOf(run)).property('type', 'vectors_missing');
      expect(await runIdOf(run)).not.equal(run.firstExecutionRunId);
      expect(calls.filter((name) => name === 'activateGeneration')).length(3);
    });
  });

  const cases: [keyof IngestionActivities, Partial<IngestionActivities>][] = [
    ['embedWindows', { embedWindows: async () => ({ windowsEmbedded: 0, windowsLeft: 5 }) }],
    ['situateChunks', { situateChunks: async () => ({ chunksSituated: 0, chunksLeft: 5 }) }],
    ['embedChunks', { embedChunks: async () => ({ chunksEmbedded: 0, chunksLeft: 5 }) }],
  ];
  for (const [step, replaced] of cases) {
    it(`fails, and says so, when ${step} works and gets no further`, async () => {
      const recorded: unknown[] = [];
      const { activities, calls } = stubIngestion({
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
      await ingest(activities, async (run) => {
        expect(await failureOf(run))
          .instanceOf(ApplicationFailure)
          .property('type', 'no_progress');
        expect(calls.filter((name) => name === step)).length(2);
        expect(recorded).deep.equal(['no_progress']);
        expect(await attributeOf(run, 'ErrorCode')).equal('no_progress');
      });
    });
  }
});
