import { expect } from 'chai';
import { taskQueues } from '#src/contracts/workflow-runs.ts';
import { appError } from '#src/errors.ts';
import { createOrchestrator } from '#src/temporal/orchestrator.ts';
import { testServices } from '#test/support/services.ts';
import { type StubActivities, stubActivities } from '#test/support/stub-activities.ts';
import { createTestNamespace } from '#test/support/temporal.ts';
import { type TestWorkers, testWorkers } from '#test/support/test-workers.ts';
import { type HistoryEvent, untilHistory } from '#test/support/workflow-run.ts';

const QUEUED = 40;
/** The worker may already have received some tasks. */
const AT_ONCE = 5;

describe('a worker with a long queue of ingestions', () => {
  let workers: TestWorkers;
  beforeEach(async () => {
    workers = await testWorkers(await createTestNamespace(testServices().temporalAddress));
  });
  afterEach(() => workers.close());

  type Ingestion = { orgId: string; documentId: string; bulk?: boolean };

  async function queue({ orgId, documentId, bulk = false }: Ingestion): Promise<void> {
    await createOrchestrator(workers.temporal, { uiUrl: null }).start({
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
    const stub = stubActivities({ activateGeneration: async ({ documentId }) => void finished.push(documentId) });
    await workOffWith(stub, () => runOf(single.documentId).result());
    return finished.indexOf(single.documentId);
  }

  const runOf = (documentId: string) => workers.client.workflow.getHandle(`ingest-${documentId}-1`);

  /** Runs a slow worker while `use` lasts. */
  const workOffWith = ({ activities }: StubActivities, use: () => Promise<unknown>) =>
    workers.withWorker(
      {},
      () =>
        workers.withWorker(activities, use, {
          taskQueue: taskQueues.ingestion,
          maxConcurrentActivityTaskExecutions: 1,
        }),
      { taskQueue: taskQueues.workflows },
    );

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
    const isRecordScheduled = (events: readonly HistoryEvent[]) =>
      events.some((event) => event.activityTaskScheduledEventAttributes?.activityType?.name === 'recordFailure');
    const stub = stubActivities({
      parseDocument: async ({ documentId }) => {
        begun.push(documentId);
        if (documentId === 'broken') throw appError('corrupt_document');
        // Gives the workflow time to receive the failure, because the test is about the order in the queue.
        if (begun.includes('broken') && begunBefore === undefined)
          await untilHistory(runOf('broken'), isRecordScheduled);
        return { sourceFormat: 'text', sizeBytes: 12 };
      },
      recordFailure: async () => {
        begunBefore = begun.length - begun.indexOf('broken') - 1;
      },
    });
    for (const of of [{ orgId: 'org', documentId: 'broken' }, ...documents({ orgId: 'org' })]) await queue(of);
    await workOffWith(stub, () => stub.untilCalled('recordFailure'));
    expect(begunBefore).below(AT_ONCE);
  });
});
