import type { RagConfig, RerankerType } from '../documents/rag-config.ts';

/**
 * A hit of BM25 or a vector search. Scores are comparable across groups, because groups share an index (BM25) or a
 * model (vectors).
 */
export type RetrievalHit = { id: string; score: number };

type FusedHit = { id: string; score: number };

/**
 * Hits in documents with the same retrieval settings. `legs` holds the hits of each search: one BM25 search for all
 * groups, one vector search per embedding model. `weights` holds the weight of each search; by default 1.
 */
export type RetrievalHitsOfGroup = {
  rrfK: number;
  legs: ReadonlyMap<string, readonly RetrievalHit[]>;
  weights?: ReadonlyMap<string, number>;
};

/**
 * Weight of a vector search for documents in a language that the embedding model does not know. It keeps the order of
 * the first fifty BM25 hits and appends other hits: on XQuAD a weight of 0.05 ranks worse than BM25 alone.
 */
export const unknownLanguageWeight = 0.005;

/**
 * Constant of reciprocal rank fusion for scores that are compared across document groups; the constant of a group's own
 * settings only orders the hits within the group.
 */
const mergeRrfK = 60;

/**
 * Merges the hits of document groups with different retrieval settings into one ranking, best first, ties by id.
 * Ranks (from 1) are computed per leg over all groups, so that a small group does not get the first rank for free. Each
 * group is ordered by reciprocal rank fusion (Cormack, Clarke and Büttcher 2009) with its own constant: Σ over legs of
 * weight / (rrfK + rank). Its i-th chunk receives the i-th largest of the group's normalized scores n = (61 / Σ weight)
 * · Σ weight / (60 + rank). With one group the result is plain fusion.
 */
export function mergeRetrievalGroups(groups: readonly RetrievalHitsOfGroup[], limit = 50): FusedHit[] {
  const ranks = globalRanks(groups);
  const queues = groups.map((group) => normalizedOrder(group, ranks));
  const merged: FusedHit[] = [];
  while (merged.length < limit) {
    // Compares only the best remaining hit of each group, so that equal scores do not change the order within a group.
    const [best] = queues.filter((queue) => queue.length > 0).sort(byHead);
    const head = best?.shift();
    if (!head) break;
    merged.push(head);
  }
  return merged;
}

export function compareByScoreThenId(a: FusedHit, b: FusedHit): number {
  return b.score - a.score || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}

function byHead([a]: readonly FusedHit[], [b]: readonly FusedHit[]): number {
  return a && b ? compareByScoreThenId(a, b) : 0;
}

type Ranks = ReadonlyMap<string, ReadonlyMap<string, number>>;

function globalRanks(groups: readonly RetrievalHitsOfGroup[]): Ranks {
  const hits = new Map<string, RetrievalHit[]>();
  for (const group of groups) {
    for (const [leg, found] of group.legs) hits.set(leg, [...(hits.get(leg) ?? []), ...found]);
  }
  return new Map([...hits].map(([leg, found]) => [leg, rankOf(found)]));
}

function rankOf(hits: readonly RetrievalHit[]): ReadonlyMap<string, number> {
  return new Map([...hits].sort(compareByScoreThenId).map((hit, index) => [hit.id, index + 1]));
}

function normalizedOrder(group: RetrievalHitsOfGroup, ranks: Ranks): FusedHit[] {
  const weightOf = (leg: string) => group.weights?.get(leg) ?? 1;
  const scored = (rrfK: number) => {
    const scores = new Map<string, number>();
    for (const [leg, hits] of group.legs) {
      for (const { id } of hits) {
        scores.set(id, (scores.get(id) ?? 0) + weightOf(leg) / (rrfK + (ranks.get(leg)?.get(id) ?? Infinity)));
      }
    }
    return [...scores].map(([id, score]) => ({ id, score })).sort(compareByScoreThenId);
  };
  const weights = Array.from(group.legs.keys(), weightOf);
  const scale = (mergeRrfK + 1) / (weights.reduce((sum, weight) => sum + weight, 0) || 1);
  const normalized = scored(mergeRrfK);
  return scored(group.rrfK).map(({ id }, index) => ({ id, score: scale * (normalized[index]?.score ?? 0) }));
}

type Reranking = RagConfig['reranking'];

export type RerankingOptions = { isEnabled: boolean | null; type: RerankerType | null };

/**
 * Search hit with its reranking settings. Hits with the same settings and the same `signature` (retrieval settings and
 * embedding model) form a group.
 */
type RerankableHit = { signature: string; reranking: Reranking };

/**
 * Decides whether and how the hits of a query are reranked, all in one batch. If the chat does not decide it, the hits
 * are reranked if at least one group has reranking enabled. The type is the chat's, or else that of the majority of
 * these groups.
 * @returns null for no reranking
 */
export function chooseRerankerType(hits: readonly RerankableHit[], options: RerankingOptions): RerankerType | null {
  const groups = new Map(hits.map((hit) => [groupOf(hit), hit.reranking]));
  const enabledGroups = [...groups.values()].filter(({ enabled }) => options.isEnabled ?? enabled);
  if (enabledGroups.length === 0) return null;
  if (options.type !== null) return options.type;
  const forLlm = enabledGroups.filter(({ rerankerType }) => rerankerType === 'llm').length;
  return forLlm * 2 > enabledGroups.length ? 'llm' : 'cross_encoder';
}

/**
 * Keeps the best `topK` hits of each reranked group, and all hits of the other groups.
 * @param ranked hits, best first
 */
export function keepTopHitsOfGroups<Hit extends RerankableHit>(
  ranked: readonly Hit[],
  options: Pick<RerankingOptions, 'isEnabled'>,
): Hit[] {
  const kept = new Map<string, number>();
  return ranked.filter((hit) => {
    const { enabled, topK } = hit.reranking;
    if (!(options.isEnabled ?? enabled)) return true;
    const group = groupOf(hit);
    const count = (kept.get(group) ?? 0) + 1;
    kept.set(group, count);
    return count <= topK;
  });
}

function groupOf({ signature, reranking }: RerankableHit): string {
  return JSON.stringify([signature, reranking]);
}

export function orderByScore<Item>(items: readonly Item[], scores: readonly number[]): Item[] {
  const scored = items.slice(0, scores.length).map((item, index) => ({ item, score: scores[index] ?? 0 }));
  const ranked = scored.sort((a, b) => b.score - a.score).map(({ item }) => item);
  return [...ranked, ...items.slice(scores.length)];
}

const rrfK = 60;

/**
 * Fuses the original order of items with the order by score: 1 / (60 + rank) + 1 / (60 + rank by score), ranks from 1.
 * For rerankers that are no more reliable than the original order. The sort is stable.
 */
export function orderByScoreAndRank<Item>(items: readonly Item[], scores: readonly number[]): Item[] {
  const judged = items.slice(0, scores.length);
  const ranks = new Map(orderByScore(judged, scores).map((item, index) => [item, index + 1]));
  const fused = judged.map((item, index) => 1 / (rrfK + index + 1) + 1 / (rrfK + (ranks.get(item) ?? Infinity)));
  return orderByScore(items, fused);
}

/** Orders items by a list of their numbers, from 1. Returns null unless the list names each item exactly once. */
export function orderByRankNumbers<Item>(items: readonly Item[], ranking: readonly number[]): Item[] | null {
  const ranked = ranking.flatMap((number) => items[number - 1] ?? []);
  const isPermutation = ranking.length === items.length && new Set(ranking).size === items.length;
  return isPermutation && ranked.length === items.length ? ranked : null;
}
