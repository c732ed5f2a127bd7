import { continueAsNew, defineQuery, proxyActivities, setHandler, workflowInfo } from '@temporalio/workflow';
import type { StoreAuditActivities } from '#activities/store-audit.ts';
import type { AuditStoresInput } from '#src/contracts/deletion.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import {
  type AuditProgress,
  type AuditReport,
  auditAfter,
  auditStart,
  auditSummary,
} from '#src/domain/documents/audit-report.ts';
import { endOfRun } from './failure.ts';
import { comparison } from './policies.ts';
import { showStage } from './visibility.ts';

const { auditPage } = proxyActivities<StoreAuditActivities>(comparison);

const stageQuery = defineQuery<AuditProgress>(stageQueryName);

/** Seventy pages: the state that goes along is small, and nobody scrolls through thousands of events. */
const eventsPerRun = 500;

/** Compares the stores page by page, and mends what differs where it is asked to. Its result is the report. */
export async function auditStores({ progress = auditStart, ...input }: AuditStoresInput): Promise<AuditReport> {
  setHandler(stageQuery, () => progress);

  try {
    while (progress.pass !== null) {
      const { pass, after } = progress;
      showStage(pass, auditSummary(progress.report));
      progress = auditAfter(progress, pass, await auditPage({ ...input, pass, after }));
      if (workflowInfo().historyLength > eventsPerRun) {
        await continueAsNew<typeof auditStores>({ ...input, progress });
      }
    }
  } catch (error) {
    // It has no job: what it did is in the report of the next one.
    throw await endOfRun(error, { cancelled: () => Promise.resolve(), failed: () => Promise.resolve() });
  }
  showStage('done', auditSummary(progress.report));
  return progress.report;
}
