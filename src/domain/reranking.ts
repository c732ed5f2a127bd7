import type { RagConfig, RerankerType } from './rag-config.ts';

type Reranking = RagConfig['reranking'];

/** What a chat asks for; null leaves it to the documents' own settings. */
export type RerankingWish = { isEnabled: boolean | null; type: RerankerType | null };

/**
 * How the hits of a query are reranked, all in one batch; null when they are not. One document that wants it is
 * enough; the kind is the majority's of those that do.
 * @param settings of each document that was hit, once
 */
export function planReranking(settings: readonly Reranking[], wish: RerankingWish): RerankerType | null {
  const willing = settings.filter(({ enabled }) => enabled);
  if (!(wish.isEnabled ?? willing.length > 0)) return null;
  if (wish.type !== null) return wish.type;
  const forLlm = willing.filter(({ rerankerType }) => rerankerType === 'llm').length;
  return forLlm * 2 > willing.length ? 'llm' : 'cross_encoder';
}

/**
 * Leaves of each group of documents with the same settings its best `topK` chunks. Groups that did not want reranking
 * and were not told to keep all of theirs.
 * @param ranked best first
 */
export function keepTopK<Chunk extends { reranking: Reranking }>(
  ranked: readonly Chunk[],
  wish: Pick<RerankingWish, 'isEnabled'>,
): Chunk[] {
  const kept = new Map<string, number>();
  return ranked.filter(({ reranking }) => {
    if (!(wish.isEnabled ?? reranking.enabled)) return true;
    const group = JSON.stringify(reranking);
    const count = (kept.get(group) ?? 0) + 1;
    kept.set(group, count);
    return count <= reranking.topK;
  });
}

/** Best first; equal ones and those without a score stay in their order, the latter behind. */
export function byScore<Item>(items: readonly Item[], scores: readonly number[]): Item[] {
  const scored = items.slice(0, scores.length).map((item, index) => ({ item, score: scores[index] ?? 0 }));
  const ranked = scored.sort((a, b) => b.score - a.score).map(({ item }) => item);
  return [...ranked, ...items.slice(scores.length)];
}

/** The items in the order of a ranking that names each of them once, counted from 1; null for anything else. */
export function byRanking<Item>(items: readonly Item[], ranking: readonly number[]): Item[] | null {
  const ranked = ranking.flatMap((number) => items[number - 1] ?? []);
  const isPermutation = ranking.length === items.length && new Set(ranking).size === items.length;
  return isPermutation && ranked.length === items.length ? ranked : null;
}
