import { ScheduleAlreadyRunning, ScheduleNotFoundError, ScheduleOverlapPolicy } from '@temporalio/client';
import type { QueueSyncInput } from '#src/contracts/connectors.ts';
import { taskQueues } from '#src/contracts/task-queues.ts';
import { syncWorkflowId } from '#src/contracts/workflow-ids.ts';
import type { SyncSchedules, SyncTimes } from '#src/ports/orchestrator.ts';
import type { TemporalConnection } from './connection.ts';
import { searchAttributes } from './search-attributes.ts';

/** Tells a pause of the settings from one of an operator, which is his to end. */
const pausedByUs = 'Switched off in the settings of the connection.';
const switchedOn = 'Switched on in the settings of the connection.';
const shortestCatchupMs = 60_000;
const dayMs = 86_400_000;

/** Schedules of the engine, one for each connection, under the id of its job. */
export function createSyncSchedules({ client, call }: TemporalConnection): SyncSchedules {
  return {
    async set(of, times) {
      const scheduleId = syncWorkflowId(of.connectionId);
      const described = { spec: specOf(times), action: actionOf(of), policies: policiesOf(times) };
      const state = { paused: !times.isOn, note: times.isOn ? switchedOn : pausedByUs };
      try {
        const memo = { summary: 'Sync a connection' };
        await call(() => client.schedule.create({ scheduleId, ...described, state, memo }));
      } catch (error) {
        if (!(error instanceof ScheduleAlreadyRunning)) throw error;
        const schedule = client.schedule.getHandle(scheduleId);
        await call(() =>
          schedule.update((previous) => {
            const isOperators = previous.state.paused && previous.state.note !== pausedByUs;
            return { ...previous, ...described, state: isOperators ? previous.state : state };
          }),
        );
      }
    },

    async remove(connectionId) {
      const schedule = client.schedule.getHandle(syncWorkflowId(connectionId));
      await call(() =>
        schedule.delete().catch((error: unknown) => {
          if (!(error instanceof ScheduleNotFoundError)) throw error;
        }),
      );
    },
  };
}

function specOf(times: SyncTimes) {
  return 'cron' in times ? { cronExpressions: [times.cron] } : { intervals: [{ every: times.everyMinutes * 60_000 }] };
}

/** One that was missed while all was down is made up for once: a sync finds what two would have found. */
function policiesOf(times: SyncTimes) {
  const catchupWindow = 'cron' in times ? dayMs : Math.max(shortestCatchupMs, times.everyMinutes * 60_000);
  return { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow };
}

function actionOf({ orgId, connectionId }: { orgId: string; connectionId: string }) {
  const input: QueueSyncInput = { orgId, connectionId };
  return {
    type: 'startWorkflow',
    workflowType: 'queueSync',
    // The engine puts the time behind it.
    workflowId: syncWorkflowId(connectionId),
    taskQueue: taskQueues.connectors,
    args: [input],
    staticSummary: 'Queue the sync of a connection',
    typedSearchAttributes: searchAttributes({ OrgId: orgId, ConnectionId: connectionId, JobKind: 'sync' }),
  } as const;
}
