/** In order: orphaned vectors (`points`) are deleted before incomplete `documents` are ingested again. */
export const auditPasses = ['points', 'documents', 'blobs', 'deletions'] as const;

export type AuditPass = (typeof auditPasses)[number];

export const findingKinds = [
  /** Vectors without a document, or of a generation that is neither active nor the newest. */
  'orphan_points',
  /** Chunks of a generation that is neither active nor the newest. */
  'orphan_chunks',
  /** An active generation whose numbers of vectors and chunks differ. */
  'missing_points',
  /** An active generation whose chunk count or chunk indices are wrong. */
  'broken_chunks',
  /** A stored object that no row refers to. */
  'orphan_blob',
  /** A document without its original. */
  'missing_blob',
  /** A requested deletion without an open job. */
  'lost_deletion',
] as const;

export type FindingKind = (typeof findingKinds)[number];

/**
 * Findings of one kind. `first` holds ids of documents or blob keys. `heldBack` counts orphans that were not deleted,
 * because so many suggest that the database is an older or another one; absent if there are none.
 */
export type FindingSummary = { found: number; repaired: number; heldBack?: number; first: string[] };

/** @returns how many orphans a page may have; if it has more, none is deleted without an operator's `--force` */
export function maxOrphanDeletions(checked: number): number {
  return Math.max(20, checked / 20);
}

export type AuditReport = {
  /** Number of inspected items per pass. */
  checked: Record<AuditPass, number>;
  /** Only kinds with findings. */
  findings: { [kind in FindingKind]?: FindingSummary };
};

/** Result of auditing one page; `next` is the position of the next page, null at the end of the pass. */
export type AuditPage = { checked: number; findings: AuditReport['findings']; next: string | null };

/** State of an audit; `pass` is null when it is complete. */
export type AuditProgress = { pass: AuditPass | null; after: string | null; report: AuditReport };

const IDS_SHOWN = 20;

export const initialAuditProgress: AuditProgress = {
  pass: auditPasses[0],
  after: null,
  report: { checked: { points: 0, documents: 0, blobs: 0, deletions: 0 }, findings: {} },
};

/** @returns the state of the audit after this page of `pass` */
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
