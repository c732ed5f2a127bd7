import { expect } from 'chai';
import {
  advanceStoreAudit,
  formatAuditSummary,
  initialStoreAuditProgress,
  maxOrphanDeletions,
  type StoreAuditProgress,
} from '#src/domain/documents/audit-report.ts';

describe('a store audit', () => {
  const ids = (count: number) => Array.from({ length: count }, (_, index) => `id${index}`);
  const orphans = { found: 15, repaired: 10, first: ids(15) };
  const { report: nothing } = initialStoreAuditProgress;

  it('checks all pages of each stage in turn, counts the findings, and lists the first twenty ids of each kind', () => {
    let progress: StoreAuditProgress = initialStoreAuditProgress;
    const seen: unknown[] = [];
    const lost = { found: 1, repaired: 1, first: ['d'] };
    for (const [stage, next, findings] of [
      ['points', 'p2', { orphan_points: { ...orphans, heldBack: 3 } }],
      ['points', null, { orphan_points: orphans }],
      ['documents', null, {}],
      ['blobs', null, {}],
      ['deletions', null, { lost_deletion: lost }],
    ] as const) {
      progress = advanceStoreAudit(progress, stage, { checked: 2, findings, next });
      seen.push([progress.pass, progress.after]);
    }
    expect(seen).deep.equal([
      ['points', 'p2'],
      ['documents', null],
      ['blobs', null],
      ['deletions', null],
      [null, null],
    ]);
    expect(progress.report).deep.equal({
      checked: { points: 4, documents: 2, blobs: 2, deletions: 2 },
      findings: {
        orphan_points: { found: 30, repaired: 20, heldBack: 3, first: [...ids(15), ...ids(5)] },
        lost_deletion: lost,
      },
    });
    expect(nothing).deep.equal({ checked: { points: 0, documents: 0, blobs: 0, deletions: 0 }, findings: {} });
    expect(formatAuditSummary(progress.report)).equal(
      '2 documents, 4 generations of vectors and 2 originals compared: ' +
        '30 orphan_points (20 repaired, 3 not deleted: too many without --force), 1 lost_deletion (1 repaired).',
    );
    expect(formatAuditSummary(nothing)).match(/^0 documents, .* compared: nothing found\.$/);
  });

  it('deletes at most twenty orphans, or a twentieth of the compared entries if that is more', () => {
    expect([0, 400, 1_000].map(maxOrphanDeletions)).deep.equal([20, 20, 50]);
  });
});
