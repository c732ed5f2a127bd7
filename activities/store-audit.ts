import type { AuditPageInput } from '#src/contracts/deletion.ts';
import type { AuditPage } from '#src/domain/documents/audit-report.ts';
import type { StoreAuditService } from '#src/modules/store-audit/store-audit.service.ts';
import { withHeartbeats } from './heartbeats.ts';

export type StoreAuditActivities = ReturnType<typeof createStoreAuditActivities>;

export function createStoreAuditActivities({ storeAudit }: { storeAudit: StoreAuditService }) {
  return {
    auditPage: (input: AuditPageInput): Promise<AuditPage> => withHeartbeats(() => storeAudit.auditPage(input)),
  };
}
