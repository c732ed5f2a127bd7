/** A hit of one leg. Scores order a leg across groups: all BM25 scores share one index, all cosines one model. */
export type LegHit = { id: string; score: number };

export type FusedHit = { id: string; score: number };

/**
 * What documents with the same retrieval settings answered. `legs` names each leg that their mode uses: the word leg
 * is one for all groups, a vector leg is one for each embedding model.
 */
export type RetrievalGroup = { rrfK: number; legs: ReadonlyMap<string, readonly LegHit[]> };

/** The scale of merge scores: independent of any group's own setting. */
const mergeRrfK = 60;

/**
 * Merges the answers of groups with different settings into one order, best first, ties by id.
 *
 * Ranks are taken per leg over all groups, from 1, so that a tiny group cannot buy the first rank. Each group keeps its
 * own order, reciprocal rank fusion of these ranks (Cormack, Clarke and Büttcher 2009): Σ over legs of 1 / (rrfK + rank),
 * where a leg that lacks the id adds nothing. Its i-th chunk receives the i-th largest of the group's normalized scores
 * n = (61 / legs) · Σ 1 / (60 + rank). With one group the order is that of plain fusion.
 */
export function mergeGroups(groups: readonly RetrievalGroup[], limit = 50): FusedHit[] {
  const ranks = globalRanks(groups);
  const queues = groups.map((group) => normalizedOrder(group, ranks));
  const merged: FusedHit[] = [];
  while (merged.length < limit) {
    // Heads are compared, never the middle of a queue: equal scores must not undo a group's own order.
    const [best] = queues.filter((queue) => queue.length > 0).sort(byHead);
    const head = best?.shift();
    if (!head) break;
    merged.push(head);
  }
  return merged;
}

/** Higher scores first; equal ones by id, so that an order never depends on where a hit came from. */
export function byScoreThenId(a: FusedHit, b: FusedHit): number {
  return b.score - a.score || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}

function byHead([a]: readonly FusedHit[], [b]: readonly FusedHit[]): number {
  return a && b ? byScoreThenId(a, b) : 0;
}

type Ranks = ReadonlyMap<string, ReadonlyMap<string, number>>;

function globalRanks(groups: readonly RetrievalGroup[]): Ranks {
  const hits = new Map<string, LegHit[]>();
  for (const group of groups) {
    for (const [leg, found] of group.legs) hits.set(leg, [...(hits.get(leg) ?? []), ...found]);
  }
  return new Map([...hits].map(([leg, found]) => [leg, rankOf(found)]));
}

function rankOf(hits: readonly LegHit[]): ReadonlyMap<string, number> {
  return new Map([...hits].sort(byScoreThenId).map((hit, index) => [hit.id, index + 1]));
}

function normalizedOrder(group: RetrievalGroup, ranks: Ranks): FusedHit[] {
  const scored = (rrfK: number) => {
    const scores = new Map<string, number>();
    for (const [leg, hits] of group.legs) {
      for (const { id } of hits) {
        scores.set(id, (scores.get(id) ?? 0) + 1 / (rrfK + (ranks.get(leg)?.get(id) ?? Infinity)));
      }
    }
    return [...scores].map(([id, score]) => ({ id, score })).sort(byScoreThenId);
  };
  const scale = (mergeRrfK + 1) / Math.max(1, group.legs.size);
  const normalized = scored(mergeRrfK);
  return scored(group.rrfK).map(({ id }, index) => ({ id, score: scale * (normalized[index]?.score ?? 0) }));
}
