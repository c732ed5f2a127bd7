import {
  type CalendarSpec,
  ScheduleAlreadyRunning,
  ScheduleNotFoundError,
  ScheduleOverlapPolicy,
  WorkflowExecutionAlreadyStartedError,
} from '@temporalio/client';
import { type CleanUpInput, dailySweeps, hourlySweeps } from '#src/contracts/clean-up.ts';
import type { QueueSyncInput } from '#src/contracts/connectors.ts';
import { type AuditStoresInput, minOrphanAgeSeconds } from '#src/contracts/deletion.ts';
import { auditWorkflowId, syncWorkflowId } from '#src/contracts/workflow-ids.ts';
import { taskQueues, type WorkflowType } from '#src/contracts/workflow-runs.ts';
import type { StoreAuditReport } from '#src/domain/documents/audit-report.ts';
import type { SyncScheduleSettings, SyncSchedules } from '#src/ports/orchestrator.ts';
import { searchAttributes, type TemporalConnection } from './connection.ts';

const workflowType = 'auditStores';
const summary = 'Compare the stores of documents';

export const auditScheduleId = auditWorkflowId;

type MaintenanceSchedule = {
  scheduleId: string;
  summary: string;
  /** How late a run may start if Temporal was down at its time. */
  catchupWindow: '10 minutes' | '1 day';
  calendar: CalendarSpec;
  workflowType: WorkflowType;
  input: object;
  jobKind: string;
};

/** Creates the schedule of the daily store audit. Keeps an existing one's time and pause. */
export async function scheduleStoreAudits(temporal: TemporalConnection, { isUpToDate = false } = {}): Promise<void> {
  const input: AuditStoresInput = { repair: true, graceSeconds: minOrphanAgeSeconds };
  const times = { calendar: { hour: 2, minute: 30 }, catchupWindow: '10 minutes' } as const;
  const schedule = { scheduleId: auditScheduleId, summary, ...times, workflowType, input, jobKind: 'audit' } as const;
  await setMaintenanceSchedule(temporal, schedule, isUpToDate);
}

/** Creates the schedules of the sweeps that delete what has expired. Keeps existing ones' times and pauses. */
export async function scheduleCleanUps(temporal: TemporalConnection, { isUpToDate = false } = {}): Promise<void> {
  // A missed run starts after the outage: a computer that is off every night would never clean up otherwise.
  const workflow = { workflowType: 'cleanUp', jobKind: 'clean-up', catchupWindow: '1 day' } as const;
  const hourly: CleanUpInput = { sweeps: hourlySweeps };
  const daily: CleanUpInput = { sweeps: dailySweeps };
  for (const schedule of [
    {
      scheduleId: 'clean-up-hourly',
      summary: 'Delete what has expired',
      calendar: { hour: '*', minute: 10 },
      input: hourly,
    },
    { scheduleId: 'clean-up-daily', summary: 'Delete what is unused', calendar: { hour: 3, minute: 40 }, input: daily },
  ] as const) {
    await setMaintenanceSchedule(temporal, { ...workflow, ...schedule }, isUpToDate);
  }
}

async function setMaintenanceSchedule(
  { client, call }: TemporalConnection,
  { scheduleId, summary, calendar, catchupWindow, workflowType, input, jobKind }: MaintenanceSchedule,
  isUpToDate: boolean,
): Promise<void> {
  const action = {
    type: 'startWorkflow',
    workflowType,
    workflowId: scheduleId,
    taskQueue: taskQueues.workflows,
    args: [input],
    typedSearchAttributes: searchAttributes({ JobKind: jobKind }),
    ...describedBy(summary),
  } as const;
  const policies = { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow };
  try {
    await call(() =>
      client.schedule.create({ scheduleId, spec: { calendars: [calendar] }, action, policies, memo: { summary } }),
    );
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error;
    if (isUpToDate) return;
    const schedule = client.schedule.getHandle(scheduleId);
    await call(() => schedule.update((previous) => ({ ...previous, action, policies })));
  }
}

/** The summary is also in the memo, because continue-as-new keeps the memo but loses the static summary. */
function describedBy(summary: string) {
  return { staticSummary: summary, memo: { summary } };
}

/** Runs a store audit now. Returns its report, or null if another manual audit is running. */
export async function runStoreAudit(
  { client, call }: TemporalConnection,
  input: AuditStoresInput,
): Promise<StoreAuditReport | null> {
  try {
    const run = await call(() =>
      client.workflow.start(workflowType, {
        workflowId: auditWorkflowId,
        workflowIdConflictPolicy: 'FAIL',
        taskQueue: taskQueues.workflows,
        args: [input],
        typedSearchAttributes: searchAttributes({ JobKind: 'audit' }),
        ...describedBy(summary),
      }),
    );
    return await run.result();
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return null;
    throw error;
  }
}

/**
 * Note of a schedule that the connection's settings have paused. Only such a schedule may be resumed by the settings;
 * one that an operator has paused stays paused.
 */
const pausedBySettings = 'Switched off in the settings of the connection.';
const switchedOn = 'Switched on in the settings of the connection.';
const shortestCatchupMs = 60_000;
const dayMs = 86_400_000;

/** Manages Temporal Schedules of syncs. The schedule id is the workflow id of the connection's sync. */
export function createSyncSchedules({ client, call }: TemporalConnection): SyncSchedules {
  return {
    async set(of, times) {
      const scheduleId = syncWorkflowId(of.connectionId);
      const described = { spec: specOf(times), action: actionOf(of), policies: policiesOf(times) };
      const state = { paused: !times.isOn, note: times.isOn ? switchedOn : pausedBySettings };
      try {
        const memo = { summary: 'Sync a connection' };
        await call(() => client.schedule.create({ scheduleId, ...described, state, memo }));
      } catch (error) {
        if (!(error instanceof ScheduleAlreadyRunning)) throw error;
        const schedule = client.schedule.getHandle(scheduleId);
        await call(() =>
          schedule.update((previous) => {
            const isPausedByOperator = previous.state.paused && previous.state.note !== pausedBySettings;
            return { ...previous, ...described, state: isPausedByOperator ? previous.state : state };
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

function specOf(times: SyncScheduleSettings) {
  return 'cron' in times ? { cronExpressions: [times.cron] } : { intervals: [{ every: times.everyMinutes * 60_000 }] };
}

/** After an outage, only one of the missed syncs runs, because it finds all changes since the last sync. */
function policiesOf(times: SyncScheduleSettings) {
  const catchupWindow = 'cron' in times ? dayMs : Math.max(shortestCatchupMs, times.everyMinutes * 60_000);
  return { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow };
}

function actionOf({ orgId, connectionId }: { orgId: string; connectionId: string }) {
  const input: QueueSyncInput = { orgId, connectionId };
  return {
    type: 'startWorkflow',
    workflowType: 'queueSync',
    // For each scheduled run, Temporal appends the scheduled time to the workflow id.
    workflowId: syncWorkflowId(connectionId),
    taskQueue: taskQueues.workflows,
    args: [input],
    staticSummary: 'Queue the sync of a connection',
    typedSearchAttributes: searchAttributes({ OrgId: orgId, ConnectionId: connectionId, JobKind: 'sync' }),
  } as const;
}
