import type { Embedder } from '../embedding/embedder.ts';
import { wordScores } from './word-scores.ts';

/** Scores passages for a question, in order; `tokens` is the number of tokens read. */
export type Reranker = (
  question: string,
  passages: string[],
  signal: AbortSignal,
) => Promise<{ scores: number[]; tokens: number }>;

/**
 * Scores passages relative to each other, from 0 to 1, by token closeness (late interaction), cosine of the whole
 * texts, and BM25. Each counts equally, as standard deviations from its mean; all three together rank better than any
 * alone.
 */
export function lateInteraction(embedder: Pick<Embedder, 'embed' | 'match'>): Reranker {
  return async (question, passages, signal) => {
    const [asked] = await embedder.embed([question], signal);
    const matches = await embedder.match(question, passages, signal);
    const views = [
      matches.map(({ closeness }) => closeness),
      matches.map(({ vector }) => vector.reduce((sum, value, place) => sum + value * (asked?.vector[place] ?? 0), 0)),
      wordScores(question, passages),
    ].map(deviations);
    return {
      scores: passages.map((_, place) => logistic(views.reduce((sum, view) => sum + (view[place] ?? 0), 0))),
      tokens: matches.reduce((total, { tokens }) => total + tokens, 0),
    };
  };
}

function deviations(values: number[]): number[] {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
  return values.map((value) => (variance > 0 ? (value - mean) / Math.sqrt(variance) : 0));
}

function logistic(value: number): number {
  return 1 / (1 + Math.exp(-value));
}
