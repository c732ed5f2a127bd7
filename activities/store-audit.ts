import type { AuditPageInput } from '#src/contracts/store-audit.ts';
import type { AuditPage } from '#src/domain/documents/audit-report.ts';
import type { StoreAuditService } from '#src/modules/store-audit/store-audit.service.ts';
import { heartbeating } from './heartbeating.ts';

export type StoreAuditActivities = ReturnType<typeof createStoreAuditActivities>;

/** Activity of `auditStores`. It is idempotent, because repaired differences are not found again. */
export function createStoreAuditActivities({ storeAudit }: { storeAudit: StoreAuditService }) {
  return {
    auditPage: (input: AuditPageInput): Promise<AuditPage> => heartbeating(() => storeAudit.auditPage(input)),
  };
}
