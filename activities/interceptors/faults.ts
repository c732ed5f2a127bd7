import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Context } from '@temporalio/activity';
import type { ActivityInterceptors } from '@temporalio/worker';
import type { InjectedFault } from '#src/config.ts';
import { appError } from '#src/errors.ts';
import { withHeartbeats } from '../heartbeats.ts';

const POLL_INTERVAL_MS = 5;

/**
 * Injects faults into activities for tests, such as a killed process or a failing service. Must run inside
 * `mapErrorsToTemporalFailures`, so that injected errors are converted like those of an activity.
 */
export function injectFaults(faults: readonly InjectedFault[]): (context: Context) => ActivityInterceptors {
  const executions = new Map<string, number>();

  return (context) => {
    const { activityType } = context.info;
    const execution = (executions.get(activityType) ?? 0) + 1;
    executions.set(activityType, execution);
    const faultAt = (position: InjectedFault['position']) =>
      faults.find(
        ({ activity, nth = execution, ...fault }) =>
          activity === activityType && nth === execution && fault.position === position,
      );

    return {
      inbound: {
        async execute(input, next) {
          await inject(faultAt('before'));
          const result = await next(input);
          await inject(faultAt('after_effect'));
          const late = faultAt('after_return');
          if (late !== undefined) void untilRecorded(context).then(() => inject(late));
          return result;
        },
      },
    };
  };
}

async function inject(fault: InjectedFault | undefined): Promise<void> {
  switch (fault?.kind) {
    case 'kill':
      process.kill(process.pid, 'SIGKILL');
      // The process may live on for a moment after SIGKILL, during which the activity must not continue.
      return new Promise(() => undefined);
    case 'throw':
      throw appError(fault.code, { detail: 'Injected by a test.' });
    case 'hang':
      // Simulates an activity that hangs in a healthy process, so heartbeats continue.
      return withHeartbeats(({ signal }) => untilAborted(signal));
    case 'delay':
      return withHeartbeats(async ({ signal }) => delay(fault.delayMs, undefined, { signal }));
  }
}

async function untilAborted(signal: AbortSignal): Promise<never> {
  if (!signal.aborted) await once(signal, 'abort');
  throw signal.reason;
}

async function untilRecorded({ client, info }: Context): Promise<void> {
  const { workflowId = '', runId = '' } = info.workflowExecution ?? {};
  const run = client.workflow.getHandle(workflowId, runId);
  for (;;) {
    const { raw } = await run.describe();
    if (!raw.pendingActivities?.some(({ activityId }) => activityId === info.activityId)) return;
    await delay(POLL_INTERVAL_MS);
  }
}
