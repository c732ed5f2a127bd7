import {
  continueAsNew,
  defineQuery,
  proxyActivities,
  setHandler,
  setWorkflowOptions,
  workflowInfo,
} from '@temporalio/workflow';
import type { StoreAuditActivities } from '#activities/store-audit.ts';
import type { AuditStoresInput } from '#src/contracts/deletion.ts';
import { stageQueryName } from '#src/contracts/workflow-runs.ts';
import {
  advanceStoreAudit,
  formatAuditSummary,
  initialStoreAuditProgress,
  type StoreAuditProgress,
  type StoreAuditReport,
} from '#src/domain/documents/audit-report.ts';
import { recordUnsuccessfulRunEnd } from './failure.ts';
import { pinnedToWorkerVersion, storeAuditPolicy } from './policies.ts';
import { showRunStage } from './visibility.ts';

const { auditPage } = proxyActivities<StoreAuditActivities>(storeAuditPolicy);

const stageQuery = defineQuery<StoreAuditProgress>(stageQueryName);

/** Continues as new after this many events (about 70 audited pages), so that a history stays readable. */
const eventsPerRun = 500;

export async function auditStores({
  progress = initialStoreAuditProgress,
  ...input
}: AuditStoresInput): Promise<StoreAuditReport> {
  setHandler(stageQuery, () => progress);

  try {
    while (progress.pass !== null) {
      const { pass, after } = progress;
      showRunStage(pass, formatAuditSummary(progress.report));
      progress = advanceStoreAudit(progress, pass, await auditPage({ ...input, pass, after }));
      if (workflowInfo().historyLength > eventsPerRun) {
        await continueAsNew<typeof auditStores>({ ...input, progress });
      }
    }
  } catch (error) {
    throw await recordUnsuccessfulRunEnd(error, {
      cancelled: () => Promise.resolve(),
      failed: () => Promise.resolve(),
    });
  }
  showRunStage('done', formatAuditSummary(progress.report));
  return progress.report;
}

setWorkflowOptions(pinnedToWorkerVersion, auditStores);
