import type { AuditPass, FindingKind } from '#src/domain/audit-report.ts';
import type { InvariantCheck } from '../invariants.model.ts';
import { createStoreInspector } from '../store-inspector.ts';
import { eachFinding } from './findings.ts';

const passes: AuditPass[] = ['points', 'documents', 'blobs', 'deletions'];
/** What I2 says already. */
const ofContent: FindingKind[] = ['broken_chunks', 'missing_points'];

/** I4: what is deleted or replaced is gone everywhere, and what is not is there. */
export const nothingIsOrphaned: InvariantCheck = {
  invariant: 'I4',
  title:
    'no vectors, chunks or originals without their document, none without its original, no deletion that stands still',
  async run(deps, patience, found) {
    const { inspect } = createStoreInspector(deps);
    let checked = 0;
    for (const pass of passes) {
      checked += await eachFinding(inspect, pass, patience, ({ kind, orgId, id, detail }) => {
        if (ofContent.includes(kind)) return;
        const isDocument = kind !== 'orphan_blob';
        found({ orgId, detail: `${kind} ${id}: ${detail}`, ...(isDocument && { documentId: id }) });
      });
    }
    return checked;
  },
};
