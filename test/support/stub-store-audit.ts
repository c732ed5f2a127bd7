import type { StoreAuditActivities } from '#activities/store-audit.ts';
import type { AuditPageInput } from '#src/contracts/deletion.ts';
import { recordCalls } from './stub-calls.ts';

/** Stub activity for an audit with the given number of document pages, which finds one document without vectors. */
export function stubStoreAudit(documentPages: number, replacements: Partial<StoreAuditActivities> = {}) {
  const pages: AuditPageInput[] = [];
  const { activities, names, untilCalled } = recordCalls<StoreAuditActivities>({
    auditPage: async (input) => {
      pages.push(input);
      const page = Number(input.after ?? 1);
      if (input.pass !== 'documents') return { checked: 1, findings: {}, next: null };
      const summary = { found: 1, repaired: input.repair ? 1 : 0, first: [`document-${page}`] };
      const findings = page === 1 ? { missing_points: summary } : {};
      return { checked: 10, findings, next: page < documentPages ? String(page + 1) : null };
    },
    ...replacements,
  });
  return { activities, calls: names, pages, untilCalled };
}
