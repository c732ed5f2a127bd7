/** A hit of one leg (BM25 or vectors). Scores of a leg are comparable across groups: one index, one model. */
export type LegHit = { id: string; score: number };

export type FusedHit = { id: string; score: number };

/**
 * Hits in documents with the same retrieval settings. `legs` holds the hits by leg: one BM25 leg for all groups, one vector leg
 * per embedding model.
 */
export type RetrievalGroup = { rrfK: number; legs: ReadonlyMap<string, readonly LegHit[]> };

/** Used for scores across groups, independent of their settings. */
const mergeRrfK = 60;

/**
 * Merges the hits of groups with different settings into one ranking, best first, ties by id.
 *
 * Ranks (from 1) are computed per leg over all groups, so that a small group does not get the first rank for free. Each group
 * is ordered by reciprocal rank fusion (Cormack, Clarke and Büttcher 2009) with its own constant: Σ over legs of
 * 1 / (rrfK + rank). Its i-th chunk receives the i-th largest of the group's normalized scores
 * n = (61 / legs) · Σ 1 / (60 + rank). With one group the result is plain fusion.
 */
export function mergeGroups(groups: readonly RetrievalGroup[], limit = 50): FusedHit[] {
  const ranks = globalRanks(groups);
  const queues = groups.map((group) => normalizedOrder(group, ranks));
  const merged: FusedHit[] = [];
  while (merged.length < limit) {
    // Only the heads of the queues are compared, so that equal scores do not change the order within a group.
    const [best] = queues.filter((queue) => queue.length > 0).sort(byHead);
    const head = best?.shift();
    if (!head) break;
    merged.push(head);
  }
  return merged;
}

/** Higher scores first, ties by id for a deterministic order. */
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
