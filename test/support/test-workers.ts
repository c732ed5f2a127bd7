import { NativeConnection, Worker, type WorkerOptions } from '@temporalio/worker';
import { v7 as uuidv7 } from 'uuid';
import { mapErrorsToTemporalFailures } from '#activities/interceptors/errors.ts';
import { registerSearchAttributes } from '#src/temporal/connection.ts';
import { buildWorkflowBundle } from '#workers/bundle.ts';
import { testServices } from './services.ts';
import { connectToTemporal, installRuntimeOnce } from './temporal.ts';

const NAMESPACE = 'default';

export type TestWorkers = Awaited<ReturnType<typeof testWorkers>>;

/**
 * Creates workers on the Temporal server of the tests, for tests that start and stop workers or change their options.
 * All others use `standingWorker`.
 */
export async function testWorkers() {
  installRuntimeOnce();
  const address = testServices().temporalAddress;
  const temporal = connectToTemporal({ address, namespace: NAMESPACE });
  await registerSearchAttributes(temporal);
  const connection = await NativeConnection.connect({ address });
  const bundle = await buildWorkflowBundle();

  return {
    temporal,
    client: temporal.client,
    /** Runs a worker with our workflows and these activities while `use` lasts, by default on a new task queue. */
    async withWorker(
      activities: object,
      use: (taskQueue: string) => Promise<void>,
      options: Partial<WorkerOptions> = {},
    ) {
      const { taskQueue = `test-${uuidv7()}` } = options;
      const worker = await Worker.create({
        connection,
        namespace: NAMESPACE,
        workflowBundle: bundle,
        activities,
        interceptors: { activity: [mapErrorsToTemporalFailures] },
        maxHeartbeatThrottleInterval: '1 second',
        ...options,
        taskQueue,
      });
      await worker.runUntil(() => use(taskQueue));
    },
    async close() {
      await connection.close();
      await temporal.close();
    },
  };
}
