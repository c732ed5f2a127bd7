import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Context } from '@temporalio/activity';
import type { ActivityInterceptors } from '@temporalio/worker';
import type { Fault } from '#src/config.ts';
import { appError } from '#src/errors.ts';
import { heartbeating } from '../heartbeating.ts';

const ASK_INTERVAL_MS = 5;

/**
 * Lets steps go wrong where a test wants it, as they do when a process dies or a service fails just then. To stand
 * behind the mapping of errors, so that what it throws is taken for what a step throws.
 */
export function injectFaults(faults: readonly Fault[]): (context: Context) => ActivityInterceptors {
  const executions = new Map<string, number>();

  return (context) => {
    const { activityType } = context.info;
    const execution = (executions.get(activityType) ?? 0) + 1;
    executions.set(activityType, execution);
    const faultAt = (position: Fault['position']) =>
      faults.find(
        ({ activity, nth = execution, ...fault }) =>
          activity === activityType && nth === execution && fault.position === position,
      );

    return {
      inbound: {
        async execute(input, next) {
          await strike(faultAt('before'));
          const result = await next(input);
          await strike(faultAt('after_effect'));
          const late = faultAt('after_return');
          if (late !== undefined) void untilAcknowledged(context).then(() => strike(late));
          return result;
        },
      },
    };
  };
}

async function strike(fault: Fault | undefined): Promise<void> {
  switch (fault?.kind) {
    case 'kill':
      process.kill(process.pid, 'SIGKILL');
      // The signal may take a moment, in which nothing must happen any more.
      return new Promise(() => undefined);
    case 'throw':
      throw appError(fault.code, { detail: 'As a test wanted it.' });
    case 'hang':
      // As a step that waits in vain while its process is well.
      return heartbeating(({ signal }) => untilAborted(signal));
    case 'delay':
      return heartbeating(async ({ signal }) => delay(fault.delayMs, undefined, { signal }));
  }
}

async function untilAborted(signal: AbortSignal): Promise<never> {
  if (!signal.aborted) await once(signal, 'abort');
  throw signal.reason;
}

/** Until the engine counts the step as done: only it knows when its answer has arrived. */
async function untilAcknowledged({ client, info }: Context): Promise<void> {
  const { workflowId = '', runId = '' } = info.workflowExecution ?? {};
  const run = client.workflow.getHandle(workflowId, runId);
  for (;;) {
    const { raw } = await run.describe();
    if (!raw.pendingActivities?.some(({ activityId }) => activityId === info.activityId)) return;
    await delay(ASK_INTERVAL_MS);
  }
}
