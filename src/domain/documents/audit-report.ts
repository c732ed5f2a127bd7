/**
 * Passes of the storage audit, in order: orphaned vectors (`points`) are deleted before incomplete `documents` are
 * ingested again.
 */
export const auditPasses = ['points', 'documents', 'blobs', 'deletions'] as const;

export type AuditPass = (typeof auditPasses)[number];

export const findingKinds = [
  /** `orphan_points`: vectors without a document, or of a generation that is neither active nor the newest. */
  'orphan_points',
  /** `orphan_chunks`: chunks of a generation that is neither active nor the newest. */
  'orphan_chunks',
  /** `missing_points`: an active generation does not have as many vectors as chunks. */
  'missing_points',
  /** `broken_chunks`: an active generation has a wrong chunk count or wrong chunk indices. */
  'broken_chunks',
  'orphan_blob',
  /** `missing_blob`: the blob store lacks the original file of a document. */
  'missing_blob',
  /** `lost_deletion`: a deletion was requested but has no open job. */
  'lost_deletion',
] as const;

export type FindingKind = (typeof findingKinds)[number];

/**
 * Audit findings of one kind. `first` holds ids of documents or blob keys. `heldBack` counts orphans that were not
 * deleted, because so many suggest that the audit compares with an older or wrong database; absent if there are none.
 */
export type FindingSummary = { found: number; repaired: number; heldBack?: number; first: string[] };

/**
 * @returns the maximum number of orphans on an audited page; if there are more, none is deleted without an operator's
 * `--force`
 */
export function maxOrphanDeletions(checked: number): number {
  return Math.max(20, checked / 20);
}

export type AuditReport = {
  checked: Record<AuditPass, number>;
  findings: { [kind in FindingKind]?: FindingSummary };
};

export type AuditPage = { checked: number; findings: AuditReport['findings']; next: string | null };

export type AuditProgress = { pass: AuditPass | null; after: string | null; report: AuditReport };

const IDS_SHOWN = 20;

export const initialAuditProgress: AuditProgress = {
  pass: auditPasses[0],
  after: null,
  report: { checked: { points: 0, documents: 0, blobs: 0, deletions: 0 }, findings: {} },
};

export function advanceAudit({ report }: AuditProgress, pass: AuditPass, page: AuditPage): AuditProgress {
  let { findings } = report;
  for (const kind of findingKinds) {
    const more = page.findings[kind];
    if (more !== undefined) findings = addFinding(findings, kind, more);
  }
  const checked = { ...report.checked, [pass]: report.checked[pass] + page.checked };
  const nextPass = page.next === null ? (auditPasses[auditPasses.indexOf(pass) + 1] ?? null) : pass;
  return { pass: nextPass, after: page.next, report: { checked, findings } };
}

export function addFinding(
  findings: AuditReport['findings'],
  kind: FindingKind,
  { found, repaired, heldBack = 0, first }: FindingSummary,
): AuditReport['findings'] {
  const before: FindingSummary = findings[kind] ?? { found: 0, repaired: 0, first: [] };
  const allHeldBack = (before.heldBack ?? 0) + heldBack;
  const summary = {
    found: before.found + found,
    repaired: before.repaired + repaired,
    ...(allHeldBack > 0 && { heldBack: allHeldBack }),
    first: [...before.first, ...first].slice(0, IDS_SHOWN),
  };
  return { ...findings, [kind]: summary };
}

export function auditSummary({ checked, findings }: AuditReport): string {
  const found = findingKinds.flatMap((kind) => {
    const summary = findings[kind];
    if (summary === undefined) return [];
    const { heldBack, repaired } = summary;
    const rest = heldBack === undefined ? '' : `, ${heldBack} not deleted: too many without --force`;
    return [`${summary.found} ${kind} (${repaired} repaired${rest})`];
  });
  const { documents, points, blobs } = checked;
  const compared = `${documents} documents, ${points} generations of vectors and ${blobs} originals compared`;
  return `${compared}: ${found.length === 0 ? 'nothing found' : found.join(', ')}.`;
}
