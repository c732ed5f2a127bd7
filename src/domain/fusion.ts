export type FusedHit = { id: string; score: number };

/**
 * Reciprocal rank fusion (Cormack, Clarke and Büttcher 2009): score(id) = Σ over legs of 1 / (rrfK + rank), where ranks
 * count from 1 and a leg that lacks the id adds nothing. Best first; ties by id.
 * @param legs ids of each leg, best first
 */
export function fuse(legs: readonly (readonly string[])[], rrfK: number): FusedHit[] {
  const scores = new Map<string, number>();
  for (const leg of legs) {
    leg.forEach((id, index) => {
      scores.set(id, (scores.get(id) ?? 0) + 1 / (rrfK + index + 1));
    });
  }
  return [...scores].map(([id, score]) => ({ id, score })).sort(byScoreThenId);
}

/** Higher scores first; equal ones by id, so that an order never depends on where a hit came from. */
export function byScoreThenId(a: FusedHit, b: FusedHit): number {
  return b.score - a.score || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}

/** More passages than this distract a model more than they tell it. */
export const contextLimits = { chunks: 8, tokens: 3_000 } as const;

/**
 * The chunks that go into a prompt, in their order: those that still fit. The first one is taken even when it alone is
 * over the budget (a document may have larger chunks); whoever builds the prompt cuts it.
 */
export function selectChunks<Chunk extends { tokenCount: number }>(
  ranked: readonly Chunk[],
  limits: { chunks: number; tokens: number } = contextLimits,
): Chunk[] {
  const selected: Chunk[] = [];
  let tokens = 0;
  for (const chunk of ranked) {
    if (selected.length === limits.chunks) break;
    if (selected.length > 0 && tokens + chunk.tokenCount > limits.tokens) continue;
    selected.push(chunk);
    tokens += chunk.tokenCount;
  }
  return selected;
}
