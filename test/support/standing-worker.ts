import { Context } from '@temporalio/activity';
import type { WorkflowStartOptions } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { v7 as uuidv7 } from 'uuid';
import { parseJobId } from '#src/contracts/workflow-ids.ts';
import { shared } from './shared.ts';
import { testWorkers } from './test-workers.ts';

type StartOptions = Omit<WorkflowStartOptions, 'taskQueue' | 'workflowId'> & { workflowId?: string };

/** One worker for all tests of the process: starting a worker for each test takes longer than most tests do. */
export type StandingWorker = Awaited<ReturnType<typeof startWorker>>;

async function startWorker() {
  const workers = await testWorkers();
  const taskQueue = `test-${uuidv7()}`;
  const activitiesOf = new Map<string, object>();

  /** Temporal calls the activity `default` for every activity type that the worker does not know. */
  async function dispatch(input: unknown): Promise<unknown> {
    const { activityType, workflowExecution } = Context.current().info;
    const { workflowId } = parseJobId(workflowExecution?.workflowId ?? '');
    const activities: Record<string, unknown> = { ...activitiesOf.get(workflowId) };
    const activity = activities[activityType] ?? activities.default;
    if (typeof activity === 'function') return activity(input);
    throw ApplicationFailure.nonRetryable(`The test has no stub of ${activityType}.`);
  }

  const closing = Promise.withResolvers<void>();
  const closed = workers.withWorker({ default: dispatch }, () => closing.promise, {
    taskQueue,
    // A cancelled activity learns of it from the answer to its next heartbeat.
    maxHeartbeatThrottleInterval: '50 ms',
    defaultHeartbeatThrottleInterval: '50 ms',
  });

  return {
    temporal: workers.temporal,
    client: workers.client,
    /**
     * Starts a workflow over these activities. Each workflow keeps the activities that it was started with, so that one
     * that outlives its test cannot call the stubs of the next. Child workflows share them if their ids are `<id>.<part>`.
     */
    start(workflow: string, activities: object, { workflowId = `test-${uuidv7()}`, ...options }: StartOptions) {
      activitiesOf.set(workflowId, activities);
      return workers.client.workflow.start(workflow, { ...options, workflowId, taskQueue });
    },
    /** Signals a workflow, and starts it over these activities if it does not run. */
    signalWithStart(
      workflow: string,
      activities: object,
      options: StartOptions & { workflowId: string; signal: string },
    ) {
      activitiesOf.set(options.workflowId, activities);
      return workers.client.workflow.signalWithStart(workflow, { ...options, taskQueue });
    },
    async close() {
      closing.resolve();
      await closed;
      await workers.close();
    },
  };
}

export const standingWorker = shared(startWorker);
