/**
 * Normalized discounted cumulative gain at `depth` (Järvelin and Kekäläinen 2002) with binary relevance: Σ 1 /
 * log2(rank + 1) over the relevant results, divided by the same sum for the ideal ranking.
 */
export function ndcg(ranking: readonly string[], relevant: ReadonlySet<string>, depth: number): number {
  const gain = (rank: number) => 1 / Math.log2(rank + 1);
  let found = 0;
  let best = 0;
  for (let rank = 1; rank <= depth; rank += 1) {
    if (relevant.has(ranking[rank - 1] ?? '')) found += gain(rank);
    if (rank <= relevant.size) best += gain(rank);
  }
  return best === 0 ? 0 : found / best;
}

export function recall(ranking: readonly string[], relevant: ReadonlySet<string>, depth: number): number {
  if (relevant.size === 0) return 0;
  return ranking.slice(0, depth).filter((id) => relevant.has(id)).length / relevant.size;
}

export type Span = { start: number; end: number };

export type SpanOverlap = { recall: number; precision: number; iou: number };

/**
 * Overlap of a question's retrieved and wanted spans in characters, after the token measures of Smith and Troynikov
 * (Chroma 2024); text retrieved twice counts twice. recall = |wanted ∩ found| / |wanted|, precision = |wanted ∩ found|
 * / Σ|found|, iou = |wanted ∩ found| / (|wanted| + Σ|found| − |wanted ∩ found|).
 */
export function spanOverlap(found: readonly Span[], wanted: readonly Span[]): SpanOverlap {
  const wantedLength = length(wanted);
  const foundLength = length(found);
  const common = length(wanted.flatMap((span) => intersections(union(found), span)));
  if (common === 0) return { recall: 0, precision: 0, iou: 0 };
  return {
    recall: common / wantedLength,
    precision: common / foundLength,
    iou: common / (wantedLength + foundLength - common),
  };
}

function length(spans: readonly Span[]): number {
  return spans.reduce((sum, { start, end }) => sum + end - start, 0);
}

function intersections(spans: readonly Span[], within: Span): Span[] {
  return spans
    .map(({ start, end }) => ({ start: Math.max(start, within.start), end: Math.min(end, within.end) }))
    .filter(({ start, end }) => start < end);
}

function union(spans: readonly Span[]): Span[] {
  const joined: Span[] = [];
  for (const { start, end } of [...spans].sort((a, b) => a.start - b.start)) {
    const last = joined.at(-1);
    if (last && start <= last.end) last.end = Math.max(last.end, end);
    else joined.push({ start, end });
  }
  return joined;
}
