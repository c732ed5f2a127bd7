import {
  ScheduleAlreadyRunning,
  ScheduleOverlapPolicy,
  WorkflowExecutionAlreadyStartedError,
} from '@temporalio/client';
import { type AuditStoresInput, auditGraceSeconds } from '#src/contracts/store-audit.ts';
import { taskQueues } from '#src/contracts/task-queues.ts';
import { auditWorkflowId } from '#src/contracts/workflow-ids.ts';
import type { AuditReport } from '#src/domain/documents/audit-report.ts';
import type { TemporalConnection } from './connection.ts';
import { searchAttributes } from './search-attributes.ts';

const workflowType = 'auditStores';
const summary = 'Compare the stores of documents';
/** Only the memo goes along when a run goes on in a new history. */
const described = { staticSummary: summary, memo: { summary } };

export const auditScheduleId = auditWorkflowId;

/**
 * Makes the schedule of the daily audit where there is none, and else brings what it starts up to date: when it does,
 * and whether it is paused, is its operator's.
 * @param isUpToDate where there is one, it is of this version
 */
export async function scheduleStoreAudits(
  { client, call }: TemporalConnection,
  { isUpToDate = false } = {},
): Promise<void> {
  const input: AuditStoresInput = { repair: true, graceSeconds: auditGraceSeconds };
  const action = {
    type: 'startWorkflow',
    workflowType,
    workflowId: auditWorkflowId,
    taskQueue: taskQueues.storeAudit,
    args: [input],
    typedSearchAttributes: searchAttributes({ JobKind: 'audit' }),
    ...described,
  } as const;
  // One that was missed waits for the next night: after an outage there are others who look after the stores first.
  const policies = { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: '10 minutes' } as const;
  try {
    await call(() =>
      client.schedule.create({
        scheduleId: auditScheduleId,
        // At night in most places where it runs.
        spec: { calendars: [{ hour: 2, minute: 30 }] },
        action,
        policies,
      }),
    );
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error;
    if (isUpToDate) return;
    const schedule = client.schedule.getHandle(auditScheduleId);
    await call(() => schedule.update((previous) => ({ ...previous, action, policies })));
  }
}

/** Runs one audit now. @returns its report, or null when one that somebody asked for is running already */
export async function runStoreAudit(
  { client, call }: TemporalConnection,
  input: AuditStoresInput,
): Promise<AuditReport | null> {
  try {
    const run = await call(() =>
      client.workflow.start(workflowType, {
        workflowId: auditWorkflowId,
        workflowIdConflictPolicy: 'FAIL',
        taskQueue: taskQueues.storeAudit,
        args: [input],
        typedSearchAttributes: searchAttributes({ JobKind: 'audit' }),
        ...described,
      }),
    );
    return await run.result();
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return null;
    throw error;
  }
}
