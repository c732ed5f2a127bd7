import type { RagConfig, RerankerType } from '../documents/rag-config.ts';

type Reranking = RagConfig['reranking'];

/** Options of a chat; null uses the settings of each document. */
export type RerankingOptions = { isEnabled: boolean | null; type: RerankerType | null };

/** A hit. Hits with equal `signature` and reranking settings form a group. */
export type RerankableHit = { signature: string; reranking: Reranking };

/**
 * Decides how the hits of a query are reranked (in one batch). Unless the chat decides, one group with reranking enabled is
 * enough. The type is the chat's, or else that of the majority of these groups.
 * @returns null for no reranking
 */
export function planReranking(hits: readonly RerankableHit[], options: RerankingOptions): RerankerType | null {
  const groups = new Map(hits.map((hit) => [groupOf(hit), hit.reranking]));
  const enabledGroups = [...groups.values()].filter(({ enabled }) => options.isEnabled ?? enabled);
  if (enabledGroups.length === 0) return null;
  if (options.type !== null) return options.type;
  const forLlm = enabledGroups.filter(({ rerankerType }) => rerankerType === 'llm').length;
  return forLlm * 2 > enabledGroups.length ? 'llm' : 'cross_encoder';
}

/**
 * Keeps the best `topK` hits of each reranked group, and all hits of the other groups.
 * @param ranked best first
 */
export function keepTopK<Hit extends RerankableHit>(
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

/** Sorts stably, best first; items without a score come last. */
export function byScore<Item>(items: readonly Item[], scores: readonly number[]): Item[] {
  const scored = items.slice(0, scores.length).map((item, index) => ({ item, score: scores[index] ?? 0 }));
  const ranked = scored.sort((a, b) => b.score - a.score).map(({ item }) => item);
  return [...ranked, ...items.slice(scores.length)];
}

const rrfK = 60;

/**
 * Fuses the original order with the order by score: 1 / (60 + rank) + 1 / (60 + rank by score), ranks from 1. For rerankers
 * that are no more reliable than the first ranking. Stable.
 */
export function byScoreAndRank<Item>(items: readonly Item[], scores: readonly number[]): Item[] {
  const judged = items.slice(0, scores.length);
  const ranks = new Map(byScore(judged, scores).map((item, index) => [item, index + 1]));
  const fused = judged.map((item, index) => 1 / (rrfK + index + 1) + 1 / (rrfK + (ranks.get(item) ?? Infinity)));
  return byScore(items, fused);
}

/** Applies a ranking of numbers from 1. @returns null unless it names each item exactly once */
export function byRanking<Item>(items: readonly Item[], ranking: readonly number[]): Item[] | null {
  const ranked = ranking.flatMap((number) => items[number - 1] ?? []);
  const isPermutation = ranking.length === items.length && new Set(ranking).size === items.length;
  return isPermutation && ranked.length === items.length ? ranked : null;
}
