/** Stages of the store audit in order: orphaned `points` are deleted before incomplete `documents` are re-ingested. */
const storageAuditPasses = ['points', 'documents', 'blobs', 'deletions'] as const;

export type StoreAuditStage = (typeof storageAuditPasses)[number];

export const storeAuditFindingKinds = [
  /** `orphan_points`: vectors without a document, or of a generation that is neither active nor the newest. */
  'orphan_points',
  /** `orphan_chunks`: chunks of a generation that is neither active nor the newest. */
  'orphan_chunks',
  /** `missing_points`: an active generation does not have as many vectors as chunks. */
  'missing_points',
  /** `broken_chunks`: an active generation has a wrong chunk count or wrong chunk indices. */
  'broken_chunks',
  'orphan_blob',
  'missing_blob',
  'lost_deletion',
] as const;

export type StoreAuditFindingKind = (typeof storeAuditFindingKinds)[number];

/**
 * Audit findings of one kind. `first` holds ids of documents or blob keys. `heldBack` counts orphans that were not
 * deleted, because so many suggest that the audit compares with an older or wrong database; absent if there are none.
 */
type AuditFindingSummary = { found: number; repaired: number; heldBack?: number; first: string[] };

/**
 * Maximum orphans among the `checked` items of an audit page. If there are more, none of them is deleted unless an
 * operator sets `--force`.
 */
export function maxOrphanDeletions(checked: number): number {
  return Math.max(20, checked / 20);
}

export type StoreAuditReport = {
  checked: Record<StoreAuditStage, number>;
  findings: { [kind in StoreAuditFindingKind]?: AuditFindingSummary };
};

export type AuditedStorePage = { checked: number; findings: StoreAuditReport['findings']; next: string | null };

export type StoreAuditProgress = { pass: StoreAuditStage | null; after: string | null; report: StoreAuditReport };

const IDS_SHOWN = 20;

export const initialStoreAuditProgress: StoreAuditProgress = {
  pass: storageAuditPasses[0],
  after: null,
  report: { checked: { points: 0, documents: 0, blobs: 0, deletions: 0 }, findings: {} },
};

export function advanceStoreAudit(
  { report }: StoreAuditProgress,
  pass: StoreAuditStage,
  page: AuditedStorePage,
): StoreAuditProgress {
  let { findings } = report;
  for (const kind of storeAuditFindingKinds) {
    const more = page.findings[kind];
    if (more !== undefined) findings = addStoreAuditFinding(findings, kind, more);
  }
  const checked = { ...report.checked, [pass]: report.checked[pass] + page.checked };
  const nextPass = page.next === null ? (storageAuditPasses[storageAuditPasses.indexOf(pass) + 1] ?? null) : pass;
  return { pass: nextPass, after: page.next, report: { checked, findings } };
}

export function addStoreAuditFinding(
  findings: StoreAuditReport['findings'],
  kind: StoreAuditFindingKind,
  { found, repaired, heldBack = 0, first }: AuditFindingSummary,
): StoreAuditReport['findings'] {
  const before: AuditFindingSummary = findings[kind] ?? { found: 0, repaired: 0, first: [] };
  const allHeldBack = (before.heldBack ?? 0) + heldBack;
  const summary = {
    found: before.found + found,
    repaired: before.repaired + repaired,
    ...(allHeldBack > 0 && { heldBack: allHeldBack }),
    first: [...before.first, ...first].slice(0, IDS_SHOWN),
  };
  return { ...findings, [kind]: summary };
}

export function formatAuditSummary({ checked, findings }: StoreAuditReport): string {
  const found = storeAuditFindingKinds.flatMap((kind) => {
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
