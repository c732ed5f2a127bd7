import { continueAsNew, defineQuery, proxyActivities, setHandler, workflowInfo } from '@temporalio/workflow';
import type { StoreAuditActivities } from '#activities/store-audit.ts';
import type { AuditStoresInput } from '#src/contracts/deletion.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import {
  type AuditProgress,
  type AuditReport,
  advanceAudit,
  auditSummary,
  initialAuditProgress,
} from '#src/domain/documents/audit-report.ts';
import { recordEndOfRun } from './failure.ts';
import { storeAuditPolicy } from './policies.ts';
import { showStage } from './visibility.ts';

const { auditPage } = proxyActivities<StoreAuditActivities>(storeAuditPolicy);

const stageQuery = defineQuery<AuditProgress>(stageQueryName);

/** Continues as new after this many events (about 70 pages), so that a history stays readable. */
const eventsPerRun = 500;

export async function auditStores({
  progress = initialAuditProgress,
  ...input
}: AuditStoresInput): Promise<AuditReport> {
  setHandler(stageQuery, () => progress);

  try {
    while (progress.pass !== null) {
      const { pass, after } = progress;
      showStage(pass, auditSummary(progress.report));
      progress = advanceAudit(progress, pass, await auditPage({ ...input, pass, after }));
      if (workflowInfo().historyLength > eventsPerRun) {
        await continueAsNew<typeof auditStores>({ ...input, progress });
      }
    }
  } catch (error) {
    throw await recordEndOfRun(error, { cancelled: () => Promise.resolve(), failed: () => Promise.resolve() });
  }
  showStage('done', auditSummary(progress.report));
  return progress.report;
}
