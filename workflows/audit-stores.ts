import { continueAsNew, defineQuery, proxyActivities, setHandler, workflowInfo } from '@temporalio/workflow';
import type { StoreAuditActivities } from '#activities/store-audit.ts';
import { stageQueryName } from '#src/contracts/messages.ts';
import type { AuditStoresInput } from '#src/contracts/store-audit.ts';
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

/** Continues as new after this many events (about 70 pages), so that a history stays readable. */
const eventsPerRun = 500;

/** Compares the stores page by page, and repairs differences if requested. */
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
    // An audit has no job to record the failure in.
    throw await endOfRun(error, { cancelled: () => Promise.resolve(), failed: () => Promise.resolve() });
  }
  showStage('done', auditSummary(progress.report));
  return progress.report;
}
