import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import proto from '@temporalio/proto';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import type { WorkflowToStart } from '#src/contracts/jobs.ts';
import { taskQueues } from '#src/contracts/workflow-runs.ts';
import type { Orchestrator } from '#src/ports/orchestrator.ts';
import {
  createTemporalConnection,
  registerSearchAttributes,
  type TemporalConnection,
} from '#src/temporal/connection.ts';
import { createOrchestrator } from '#src/temporal/orchestrator.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { testServices } from '#test/support/services.ts';
import { connectToTemporal, createTestNamespace } from '#test/support/temporal.ts';
import type { HistoryEvent } from '#test/support/workflow-run.ts';

const COMPLETE = proto.temporal.api.enums.v1.CommandType.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION;

describe('the orchestrator over Temporal', () => {
  let temporal: TemporalConnection;
  let orchestrator: Orchestrator;

  before(async () => {
    const address = testServices().temporalAddress;
    temporal = connectToTemporal({ address, namespace: await createTestNamespace(address) });
    orchestrator = createOrchestrator(temporal, { uiUrl: 'http://localhost:8233/' });
    await registerSearchAttributes(temporal);
  });
  after(() => temporal.close());

  const document = { orgId: 'org', documentId: 'document' };
  const summary = 'Something to do';
  const ingest: WorkflowToStart = { workflow: 'ingestDocument', input: { ...document, generation: 1 }, summary };
  const score: WorkflowToStart = { workflow: 'scoreAlignment', input: { orgId: 'org', chatId: 'chat' }, summary };
  const remove: WorkflowToStart = { workflow: 'deleteDocument', input: document, summary };
  const startIds = [uuidv7(), uuidv7()];
  const start = (workflowId: string, work: WorkflowToStart, attempt = 1, startId = startIds[attempt - 1] ?? '') =>
    orchestrator.start({ workflowId, start: work, startId, attempt, attributes: document, requestId: 'request-1' });
  const runOf = (workflowId: string) => temporal.client.workflow.getHandle(workflowId);
  const countEvents = async (workflowId: string, kind: keyof HistoryEvent) =>
    ((await runOf(workflowId).fetchHistory()).events ?? []).filter((event) => event[kind]).length;

  /** Acts like a worker that completes this run, and those that were queued before it. */
  async function complete(workflowId: string): Promise<void> {
    const { client, namespace, call } = temporal;
    const identity = 'test';
    const poll = { namespace, identity, taskQueue: { name: taskQueues.workflows } };
    for (let last = ''; last !== workflowId; ) {
      const task = await call(() => client.workflowService.pollWorkflowTaskQueue(poll));
      await client.workflowService.respondWorkflowTaskCompleted({
        namespace,
        identity,
        taskToken: task.taskToken,
        commands: [{ commandType: COMPLETE, completeWorkflowExecutionCommandAttributes: {} }],
      });
      last = task.workflowExecution?.workflowId ?? '';
    }
  }

  it('starts a run once, with search attributes, memo and summary', async () => {
    const id = `ingest-${uuidv7()}-1`;
    await start(id, ingest);
    const { runId, memo, typedSearchAttributes, staticSummary } = await runOf(id).describe();
    await start(id, ingest);
    expect((await runOf(id).describe()).runId).equal(runId);
    expect(memo).deep.equal({ requestId: 'request-1', attempt: 1, startId: startIds[0], summary });
    expect(await staticSummary()).equal(summary);
    const attributes = typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]);
    expect(Object.fromEntries(attributes)).include({ OrgId: 'org', DocumentId: 'document', JobKind: 'ingest' });
  });

  it('starts a further attempt of a job only after the run of the previous attempt has closed', async () => {
    const id = `ingest-${uuidv7()}-1`;
    expect(await start(id, ingest)).equal('started');
    expect(await start(id, ingest, 2)).equal('closing');
    await runOf(id).terminate();
    expect(await orchestrator.describe(id)).equal('failed');
    expect(await orchestrator.inspect(id)).nested.property('error.code', 'run_terminated');
    for (let times = 0; times < 2; times += 1) expect(await start(id, ingest, 2)).equal('started');
    expect((await runOf(id).describe()).memo).deep.include({ attempt: 2, startId: startIds[1] });
  });

  it('starts a completed ingestion or deletion again, since the database may be an older, restored one', async () => {
    const completed = [
      { id: `ingest-${uuidv7()}-1`, work: ingest, attempt: 1 },
      { id: `delete-${uuidv7()}`, work: remove, attempt: 2 },
    ];
    for (const { id, work, attempt } of completed) {
      await start(id, work);
      await complete(id);
      expect(await orchestrator.describe(id)).equal('completed');
      expect(await start(id, work, attempt)).equal('started');
      expect(await orchestrator.describe(id)).equal('open');
    }
  });

  it('starts a job anew by first cancelling the run of an earlier attempt, or terminating it if it is a deletion', async () => {
    const id = `ingest-${uuidv7()}-1`;
    await start(id, ingest, 1, uuidv7());
    expect(await start(id, ingest)).equal('closing');
    expect(await countEvents(id, 'workflowExecutionCancelRequestedEventAttributes')).equal(1);
    const deletion = `delete-${uuidv7()}`;
    await start(deletion, remove, 1, uuidv7());
    expect(await start(deletion, remove)).equal('closing');
    expect(await start(deletion, remove)).equal('started');
  });

  it('signals the open alignment run of a chat, or starts one', async () => {
    const id = `alignment-${uuidv7()}`;
    for (let times = 0; times < 2; times += 1) await start(id, score);
    expect(await countEvents(id, 'workflowExecutionSignaledEventAttributes')).equal(2);
  });

  it('cancels an open run; cancelling a missing run does nothing, and describing one reports it as missing', async () => {
    const id = `ingest-${uuidv7()}-1`;
    await start(id, ingest);
    expect(await orchestrator.inspect(id)).deep.equal({ state: 'open' });
    await orchestrator.cancel(id);
    await orchestrator.cancel('ingest-nothing-1');
    expect(await orchestrator.inspect(id)).deep.equal({ state: 'open', toStop: startIds[0] });
    expect(await countEvents(id, 'workflowExecutionCancelRequestedEventAttributes')).equal(1);
    expect(await orchestrator.describe('ingest-nothing-1')).equal('unknown');
    expect(await orchestrator.retryParked('ingest-nothing-1')).equal('gone');
    expect(await orchestrator.skipParked('ingest-nothing-1')).equal('gone');
  });

  it('reports queues without workers, and the UI address of a run', async () => {
    expect(await orchestrator.hasPollers()).equal(false);
    expect(orchestrator.uiUrl('ingest-x-1')).equal(
      `http://localhost:8233/namespaces/${temporal.namespace}/workflows/ingest-x-1`,
    );
  });

  it('throws internal_error for a request that Temporal rejects', async () => {
    // This namespace lacks our search attributes.
    const namespace = await createTestNamespace(testServices().temporalAddress);
    const other = connectToTemporal({ address: testServices().temporalAddress, namespace });
    const { start } = createOrchestrator(other, { uiUrl: null });
    const job = { workflowId: 'ingest-x-1', start: ingest, startId: uuidv7(), attempt: 1, requestId: null };
    expect(await appErrorCode(start({ ...job, attributes: { orgId: 'org' } }))).equal('internal_error');
    await other.close();
  });

  it('throws service_unavailable while Temporal is down', async () => {
    const unreachable = createTemporalConnection({
      address: '127.0.0.1:1',
      namespace: 'default',
      callTimeoutMs: 2_000,
    });
    const { describe, retryParked, cancel } = createOrchestrator(unreachable, { uiUrl: null });
    for (const call of [describe, retryParked, cancel]) {
      expect(await appErrorCode(call('ingest-x-1'))).equal('service_unavailable');
    }
    await unreachable.close();
  });

  it('finishes pending calls before it closes', async () => {
    const asked = Promise.withResolvers<void>();
    const refusing = createServer((socket) => {
      socket.destroy();
      asked.resolve();
    });
    refusing.listen(0, '127.0.0.1');
    await once(refusing, 'listening');
    const address = `127.0.0.1:${(refusing.address() as AddressInfo).port}`;
    const dying = createTemporalConnection({ address, namespace: 'default', callTimeoutMs: 2_000 });
    const outcome = appErrorCode(createOrchestrator(dying, { uiUrl: null }).describe('ingest-x-1'));
    await asked.promise;
    await dying.close();
    // A retry on a closed channel would be an unhandled rejection, which fails the test run.
    expect(await outcome).equal('service_unavailable');
    refusing.close();
  });
});
