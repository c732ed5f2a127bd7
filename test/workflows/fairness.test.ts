import { NativeConnection, Worker } from '@temporalio/worker';
import { expect } from 'chai';
import type { IngestionActivities } from '#activities/ingestion.ts';
import { mapErrorsToTemporalFailures } from '#activities/interceptors/errors.ts';
import { taskQueues } from '#src/contracts/workflow-runs.ts';
import { appError } from '#src/errors.ts';
import { registerSearchAttributes, type TemporalConnection } from '#src/temporal/connection.ts';
import { createOrchestrator } from '#src/temporal/orchestrator.ts';
import { type HistoryEvent, untilHistory } from '#test/support/history-events.ts';
import { testServices } from '#test/support/services.ts';
import { stubIngestion } from '#test/support/stub-activities.ts';
import { connectToTemporal, createTestNamespace, installRuntimeOnce } from '#test/support/temporal.ts';
import { buildWorkflowBundle } from '#workers/bundle.ts';

const QUEUED = 40;
/** The worker may already have received some tasks. */
const AT_ONCE = 5;

describe('a worker with a long queue of ingestions', () => {
  let temporal: TemporalConnection;
  let connection: NativeConnection;

  before(() => installRuntimeOnce());

  beforeEach(async () => {
    const address = testServices().temporalAddress;
    temporal = connectToTemporal({ address, namespace: await createTestNamespace(address) });
    await registerSearchAttributes(temporal);
    connection = await NativeConnection.connect({ address });
  });
  afterEach(async () => {
    await connection.close();
    await temporal.close();
  });

  type Ingestion = { orgId: string; documentId: string; bulk?: boolean };

  async function queue({ orgId, documentId, bulk = false }: Ingestion): Promise<void> {
    await createOrchestrator(temporal, { uiUrl: null }).start({
      workflowId: `ingest-${documentId}-1`,
      start: { workflow: 'ingestDocument', input: { orgId, documentId, generation: 1 }, summary: 'A note', bulk },
      startId: documentId,
      attempt: 1,
      attributes: { orgId, documentId },
      requestId: null,
    });
  }

  /** Queues a single ingestion behind a backlog. @returns how many ingestions a slow worker finishes before it */
  async function countFinishedBefore(single: Ingestion, backlog: readonly Ingestion[]): Promise<number> {
    await Promise.all(backlog.map(queue));
    await queue(single);
    const finished: string[] = [];
    const { activities } = stubIngestion({
      activateGeneration: async ({ documentId }) => {
        finished.push(documentId);
      },
    });
    const worker = await createWorker(activities);
    await worker.runUntil(temporal.client.workflow.getHandle(`ingest-${single.documentId}-1`).result());
    return finished.indexOf(single.documentId);
  }

  async function createWorker(activities: IngestionActivities): Promise<Worker> {
    return Worker.create({
      connection,
      namespace: temporal.namespace,
      taskQueue: taskQueues.ingestion,
      workflowBundle: await buildWorkflowBundle(),
      activities,
      maxConcurrentActivityTaskExecutions: 1,
      interceptors: { activity: [mapErrorsToTemporalFailures] },
    });
  }

  const documents = (of: Omit<Ingestion, 'documentId'>): Ingestion[] =>
    Array.from({ length: QUEUED }, (_, index) => ({ ...of, documentId: `document-${index}` }));

  const backlogs = {
    'the backlog of another organization': { orgId: 'large' },
    'a bulk import of the same organization': { orgId: 'org', bulk: true },
  };
  for (const [what, of] of Object.entries(backlogs)) {
    it(`ingests a single upload before ${what}`, async () => {
      expect(await countFinishedBefore({ orgId: 'org', documentId: 'single' }, documents(of))).below(AT_ONCE);
    });
  }

  it('records the end of an ingestion before it starts other ingestions', async () => {
    const begun: string[] = [];
    let begunBefore: number | undefined;
    const broken = temporal.client.workflow.getHandle('ingest-broken-1');
    const isRecordScheduled = (events: readonly HistoryEvent[]) =>
      events.some((event) => event.activityTaskScheduledEventAttributes?.activityType?.name === 'recordFailure');
    const { activities, untilCalled } = stubIngestion({
      parseDocument: async ({ documentId }) => {
        begun.push(documentId);
        if (documentId === 'broken') throw appError('corrupt_document');
        // Gives the workflow time to receive the failure, because the test is about the order in the queue.
        if (begun.includes('broken') && begunBefore === undefined) await untilHistory(broken, isRecordScheduled);
        return { sourceFormat: 'text', sizeBytes: 12 };
      },
      recordFailure: async () => {
        begunBefore = begun.length - begun.indexOf('broken') - 1;
      },
    });
    for (const of of [{ orgId: 'org', documentId: 'broken' }, ...documents({ orgId: 'org' })]) await queue(of);
    const worker = await createWorker(activities);
    await worker.runUntil(untilCalled('recordFailure'));
    expect(begunBefore).below(AT_ONCE);
  });
});
