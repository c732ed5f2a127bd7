import type { AuditPass } from '#src/domain/audit-report.ts';
import type { Patience } from '../invariants.model.ts';
import type { Finding } from '../store-audit.model.ts';
import type { StoreInspector } from '../store-inspector.ts';

/** Goes through a whole pass. @returns how many things were looked at */
export async function eachFinding(
  inspect: StoreInspector['inspect'],
  pass: AuditPass,
  { orphanSeconds }: Patience,
  see: (finding: Finding) => void,
): Promise<number> {
  let checked = 0;
  for (let after: string | null = null; ; ) {
    const page = await inspect(pass, after, orphanSeconds);
    page.findings.forEach(see);
    checked += page.checked;
    if (page.next === null) return checked;
    after = page.next;
  }
}
