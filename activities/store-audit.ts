import type { AuditPageInput } from '#src/contracts/deletion.ts';
import type { AuditPage } from '#src/domain/documents/audit-report.ts';
import type { StoreAuditService } from '#src/modules/store-audit/store-audit.service.ts';
import { heartbeating } from './heartbeating.ts';

export type StoreAuditActivities = ReturnType<typeof createStoreAuditActivities>;

/** The step of `auditStores`. It may run twice, also at the same time: what is mended is not found again. */
export function createStoreAuditActivities({ storeAudit }: { storeAudit: StoreAuditService }) {
  return {
    auditPage: (input: AuditPageInput): Promise<AuditPage> => heartbeating(() => storeAudit.auditPage(input)),
  };
}
