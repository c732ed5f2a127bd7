import type { AuditStorePageInput } from '#src/contracts/deletion.ts';
import type { AuditedStorePage } from '#src/domain/documents/audit-report.ts';
import type { StoreAuditService } from '#src/modules/store-audit/store-audit.service.ts';
import { withHeartbeats } from './heartbeats.ts';

export type StoreAuditActivities = ReturnType<typeof createStoreAuditActivities>;

export function createStoreAuditActivities({ storeAudit }: { storeAudit: StoreAuditService }) {
  return {
    auditPage: (input: AuditStorePageInput): Promise<AuditedStorePage> =>
      withHeartbeats(() => storeAudit.auditPage(input)),
  };
}
