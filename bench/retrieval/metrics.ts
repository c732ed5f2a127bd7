/**
 * Normalized discounted cumulative gain of the first `depth` (Järvelin and Kekäläinen 2002) with relevances of 0 and
 * 1: Σ 1 / log2(rank + 1) over the relevant ones, over the same for the best possible order.
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

/** The share of the relevant ones that are among the first `depth`. */
export function recall(ranking: readonly string[], relevant: ReadonlySet<string>, depth: number): number {
  if (relevant.size === 0) return 0;
  return ranking.slice(0, depth).filter((id) => relevant.has(id)).length / relevant.size;
}

/** A part of a text, `end` exclusive. */
export type Span = { start: number; end: number };

export type SpanOverlap = { recall: number; precision: number; iou: number };

/**
 * What a question's found spans cover of its wanted ones, all of one text and in characters: the measures by tokens of
 * Smith and Troynikov (Chroma 2024), where repeated finds count as often as somebody has to read them.
 * recall = |wanted ∩ found| / |wanted|, precision = |wanted ∩ found| / Σ|found|,
 * iou = |wanted ∩ found| / (|wanted| + Σ|found| − |wanted ∩ found|).
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

/** The same places, each once. */
function union(spans: readonly Span[]): Span[] {
  const joined: Span[] = [];
  for (const { start, end } of [...spans].sort((a, b) => a.start - b.start)) {
    const last = joined.at(-1);
    if (last && start <= last.end) last.end = Math.max(last.end, end);
    else joined.push({ start, end });
  }
  return joined;
}
