import { expect } from 'chai';
import { advanceStoreAudit, initialStoreAuditProgress } from '#src/domain/documents/audit-report.ts';
import type { Stack } from './stack.ts';

/** Fails with what the auditor would have to mend in a stack where everything has come to rest. */
export async function expectStoresMatch({ container }: Pick<Stack, 'container'>): Promise<void> {
  let progress = initialStoreAuditProgress;
  while (progress.pass !== null) {
    const { pass, after } = progress;
    const page = await container.storeAudit.auditPage({ pass, after, repair: false, graceSeconds: 0 });
    progress = advanceStoreAudit(progress, pass, page);
  }
  expect(progress.report.findings).deep.equal({});
}
