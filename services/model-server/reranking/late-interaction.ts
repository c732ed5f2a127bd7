import type { Embedder } from '../embedding/embedder.ts';
import { wordScores } from './word-scores.ts';

/** Scores passages for a question, in their order; `tokens` is what was read for it. */
export type Reranker = (
  question: string,
  passages: string[],
  signal: AbortSignal,
) => Promise<{ scores: number[]; tokens: number }>;

/**
 * How well each passage fits the question beside the others of the call, from 0 to 1: how close the tokens are, how
 * close the whole texts are, and which rare words they share. No view alone ranks as well as all three together, and
 * each speaks with the same weight, in deviations from its mean.
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

/** In standard deviations from the mean; all 0 where nothing differs. */
function deviations(values: number[]): number[] {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
  return values.map((value) => (variance > 0 ? (value - mean) / Math.sqrt(variance) : 0));
}

function logistic(value: number): number {
  return 1 / (1 + Math.exp(-value));
}
