import { writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { Context } from '@temporalio/activity';
import type { WorkflowHandleWithFirstExecutionRunId, WorkflowStartOptions } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { NativeConnection, Worker, type WorkerOptions } from '@temporalio/worker';
import { v7 as uuidv7 } from 'uuid';
import { mapErrorsToTemporalFailures } from '#activities/interceptors/errors.ts';
import { parseJobId } from '#src/contracts/workflow-ids.ts';
import { registerSearchAttributes, searchAttributes } from '#src/temporal/connection.ts';
import { createOrchestrator } from '#src/temporal/orchestrator.ts';
import { buildWorkflowBundle } from '#workers/bundle.ts';
import { testServices } from './services.ts';
import { shared } from './stack.ts';
import type { StubActivities } from './stub-activities.ts';
import { connectToTemporal, installRuntimeOnce } from './temporal.ts';

export type TestWorkers = Awaited<ReturnType<typeof testWorkers>>;

/**
 * Creates workers on the Temporal server of the tests, for tests that start and stop workers or change their options.
 * All others use `startRun`.
 */
export async function testWorkers(namespace = 'default') {
  installRuntimeOnce();
  const address = testServices().temporalAddress;
  const temporal = connectToTemporal({ address, namespace });
  await registerSearchAttributes(temporal);
  const connection = await NativeConnection.connect({ address });
  const workflowBundle = await buildWorkflowBundle();

  return {
    temporal,
    client: temporal.client,
    /** Runs a worker with our workflows and these activities while `use` lasts. */
    async withWorker(
      activities: object,
      use: () => Promise<unknown>,
      options: Partial<WorkerOptions> & { taskQueue: string },
    ) {
      const worker = await Worker.create({
        connection,
        namespace,
        workflowBundle,
        activities,
        interceptors: { activity: [mapErrorsToTemporalFailures] },
        maxHeartbeatThrottleInterval: '1 second',
        ...options,
      });
      await worker.runUntil(use);
    },
    async close() {
      await connection.close();
      await temporal.close();
    },
  };
}

type StartOptions = Partial<Omit<WorkflowStartOptions, 'taskQueue' | 'args'>>;
type Stub = Pick<StubActivities, 'activities'>;

/** One worker for all tests of the process: starting a worker for each test takes longer than most tests do. */
export const standingWorker = shared(async () => {
  const workers = await testWorkers();
  const { client } = workers;
  const taskQueue = `test-${uuidv7()}`;
  const stubOf = new Map<string, Stub>();
  const started: WorkflowHandleWithFirstExecutionRunId[] = [];

  async function dispatch(input: unknown): Promise<unknown> {
    const { workflowId } = parseJobId(Context.current().info.workflowExecution?.workflowId ?? '');
    const stub = stubOf.get(workflowId);
    if (stub === undefined) throw ApplicationFailure.nonRetryable(`No test has stubs for the run ${workflowId}.`);
    return stub.activities.default(input);
  }

  const closing = Promise.withResolvers<void>();
  const closed = workers.withWorker({ default: dispatch }, () => closing.promise, {
    taskQueue,
    // A cancelled activity learns of it from the answer to its next heartbeat.
    maxHeartbeatThrottleInterval: '50 ms',
    defaultHeartbeatThrottleInterval: '50 ms',
  });

  return {
    ...workers,
    async start(workflow: string, stub: Stub, input: object, options: StartOptions) {
      const { workflowId = `test-${uuidv7()}` } = options;
      stubOf.set(workflowId, stub);
      const usual = { memo: { attempt: 2 }, typedSearchAttributes: searchAttributes({ OrgId: 'org' }) };
      const run = await client.workflow.start(workflow, { ...usual, ...options, args: [input], workflowId, taskQueue });
      started.push(run);
      return run;
    },
    async close() {
      closing.resolve();
      await closed;
      if (process.env.RECORD_HISTORY && started[0]) await record(process.env.RECORD_HISTORY, started[0]);
      await workers.close();
    },
  };
});

/**
 * Starts a workflow over these activities, as the first attempt after a failed one. Each workflow keeps the activities
 * that it was started with, so that one that outlives its test cannot call the stubs of the next. Child workflows share
 * them if their ids are `<id>.<part>`.
 */
export const startRun = async (workflow: string, stub: Stub, input: object, options: StartOptions = {}) =>
  (await standingWorker()).start(workflow, stub, input, options);

export const orchestratorOfRuns = async () => createOrchestrator((await standingWorker()).temporal, { uiUrl: null });

/**
 * Writes the histories of a run, and of the runs that it continued as, to test/replay. A history that is kept is never
 * recorded again: it stands for the runs that are open when a version is deployed.
 */
async function record(name: string, run: WorkflowHandleWithFirstExecutionRunId): Promise<void> {
  let runId: string | null | undefined = run.firstExecutionRunId;
  for (let part = 1; runId; part += 1) {
    const history = await run.client.getHandle(run.workflowId, runId).fetchHistory();
    const withoutMachine = historyToJSON(history)
      .replaceAll(process.cwd(), '')
      .replaceAll(`${process.pid}@${hostname()}`, 'worker');
    const file = `${name}${part === 1 ? '' : `-${part}`}.json`;
    await writeFile(join('test/replay/histories', file), withoutMachine, { flag: 'wx' });
    runId = history.events?.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId;
  }
}
