/** In the order in which the stores are compared: what has no owner goes before what has lost something is made again. */
export const auditPasses = ['points', 'documents', 'blobs', 'deletions'] as const;

export type AuditPass = (typeof auditPasses)[number];

export const findingKinds = [
  /** Vectors of a document or of a generation that is neither active nor the newest. */
  'orphan_points',
  /** Chunks of a generation that is neither active nor the newest. */
  'orphan_chunks',
  /** An active generation with fewer vectors than chunks. */
  'missing_points',
  /** An active generation whose chunks are not 0..n-1, or not as many as were cut. */
  'broken_chunks',
  /** A stored original that no document refers to. */
  'orphan_blob',
  /** A document whose original is not there. */
  'missing_blob',
  /** A deletion that was asked for and that nobody works on. */
  'lost_deletion',
] as const;

export type FindingKind = (typeof findingKinds)[number];

/**
 * `first`: ids of documents, or keys of originals. `heldBack`: not repaired, since so many at once say that the database
 * is older than the other stores, or another one; absent when there are none.
 */
export type FindingSummary = { found: number; repaired: number; heldBack?: number; first: string[] };

/** Of a page: what may be deleted without an operator's word. A deletion that got lost leaves a few; more is a disaster. */
export function maxDeletions(checked: number): number {
  return Math.max(20, checked / 20);
}

export type AuditReport = {
  /** How many of each were looked at. */
  checked: Record<AuditPass, number>;
  /** Kinds of which there is none are left out. */
  findings: { [kind in FindingKind]?: FindingSummary };
};

/** What one page of a pass adds to a report; `next` is where the page after it begins, null at the end of the pass. */
export type AuditPage = { checked: number; findings: AuditReport['findings']; next: string | null };

/** Where an audit stands; `pass` is null when it is over. */
export type AuditProgress = { pass: AuditPass | null; after: string | null; report: AuditReport };

const IDS_SHOWN = 20;

export const auditStart: AuditProgress = {
  pass: auditPasses[0],
  after: null,
  report: { checked: { points: 0, documents: 0, blobs: 0, deletions: 0 }, findings: {} },
};

/** Where the audit goes on after this page of `pass`. */
export function auditAfter({ report }: AuditProgress, pass: AuditPass, page: AuditPage): AuditProgress {
  let { findings } = report;
  for (const kind of findingKinds) {
    const more = page.findings[kind];
    if (more !== undefined) findings = withFinding(findings, kind, more);
  }
  const checked = { ...report.checked, [pass]: report.checked[pass] + page.checked };
  const nextPass = page.next === null ? (auditPasses[auditPasses.indexOf(pass) + 1] ?? null) : pass;
  return { pass: nextPass, after: page.next, report: { checked, findings } };
}

export function withFinding(
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

/** In one line. */
export function auditSummary({ checked, findings }: AuditReport): string {
  const found = findingKinds.flatMap((kind) => {
    const summary = findings[kind];
    if (summary === undefined) return [];
    const { heldBack, repaired } = summary;
    const rest = heldBack === undefined ? '' : `, ${heldBack} held back: too many to be deleted unasked`;
    return [`${summary.found} ${kind} (${repaired} repaired${rest})`];
  });
  const { documents, points, blobs } = checked;
  const compared = `${documents} documents, ${points} generations of vectors and ${blobs} originals compared`;
  return `${compared}: ${found.length === 0 ? 'nothing found' : found.join(', ')}.`;
}
