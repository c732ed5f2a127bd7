import type { RagConfig, RerankerType } from './rag-config.ts';

type Reranking = RagConfig['reranking'];

/** What a chat asks for; null leaves it to the documents' own settings. */
export type RerankingWish = { isEnabled: boolean | null; type: RerankerType | null };

/** A hit. Documents of one `signature` that also have the same reranking settings are one group here. */
export type RerankableHit = { signature: string; reranking: Reranking };

/**
 * How the hits of a query are reranked, all in one batch; null when they are not. One group that wants it is enough,
 * if the chat does not say otherwise; the kind is the chat's or else that of most groups that are reranked.
 */
export function planReranking(hits: readonly RerankableHit[], wish: RerankingWish): RerankerType | null {
  const groups = new Map(hits.map((hit) => [groupOf(hit), hit.reranking]));
  const willing = [...groups.values()].filter(({ enabled }) => wish.isEnabled ?? enabled);
  if (willing.length === 0) return null;
  if (wish.type !== null) return wish.type;
  const forLlm = willing.filter(({ rerankerType }) => rerankerType === 'llm').length;
  return forLlm * 2 > willing.length ? 'llm' : 'cross_encoder';
}

/**
 * Leaves each group its best `topK` hits. Groups that did not want reranking and were not told to keep all of theirs.
 * @param ranked best first
 */
export function keepTopK<Hit extends RerankableHit>(
  ranked: readonly Hit[],
  wish: Pick<RerankingWish, 'isEnabled'>,
): Hit[] {
  const kept = new Map<string, number>();
  return ranked.filter((hit) => {
    const { enabled, topK } = hit.reranking;
    if (!(wish.isEnabled ?? enabled)) return true;
    const group = groupOf(hit);
    const count = (kept.get(group) ?? 0) + 1;
    kept.set(group, count);
    return count <= topK;
  });
}

function groupOf({ signature, reranking }: RerankableHit): string {
  return JSON.stringify([signature, reranking]);
}

/** Best first; equal ones and those without a score stay in their order, the latter behind. */
export function byScore<Item>(items: readonly Item[], scores: readonly number[]): Item[] {
  const scored = items.slice(0, scores.length).map((item, index) => ({ item, score: scores[index] ?? 0 }));
  const ranked = scored.sort((a, b) => b.score - a.score).map(({ item }) => item);
  return [...ranked, ...items.slice(scores.length)];
}

const placeK = 60;

/**
 * The same for a judge that is trusted no more than the order in which the items came: reciprocal rank fusion of both,
 * 1 / (60 + place) + 1 / (60 + place by score), places from 1. Equal ones stay in their order.
 */
export function byScoreAndPlace<Item>(items: readonly Item[], scores: readonly number[]): Item[] {
  const judged = items.slice(0, scores.length);
  const places = new Map(byScore(judged, scores).map((item, index) => [item, index + 1]));
  const fused = judged.map((item, index) => 1 / (placeK + index + 1) + 1 / (placeK + (places.get(item) ?? Infinity)));
  return byScore(items, fused);
}

/** The items in the order of a ranking that names each of them once, counted from 1; null for anything else. */
export function byRanking<Item>(items: readonly Item[], ranking: readonly number[]): Item[] | null {
  const ranked = ranking.flatMap((number) => items[number - 1] ?? []);
  const isPermutation = ranking.length === items.length && new Set(ranking).size === items.length;
  return isPermutation && ranked.length === items.length ? ranked : null;
}
