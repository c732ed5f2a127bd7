import {
  countRefusalPhrases,
  createRefusalFeatureExtractor,
  ngramsOfReplyOpening,
  refusalProbability,
} from '#src/domain/alignment/refusal.ts';
import type { TextAnalyzer } from '#src/domain/text/words.ts';
import { fitSparseLogistic } from './sparse-logistic.ts';
import type { LabelledReply } from './xstest.ts';

export type EmbeddedReply = LabelledReply & { vector: Float32Array };

/**
 * Minimum number of replies that an n-gram occurs in: a rarer one says more about the topic of a reply than about
 * refusals.
 */
const rarestGram = 8;
/**
 * L2 penalties, chosen by leave-one-model-out cross-validation. The words alone need less because they have fewer
 * features.
 */
const penalties = { embedding: 0.3, words: 0.1 };

export type FittedRefusal = {
  grams: string[];
  rarity: number[];
  /** The intercept is the last weight. */
  weights: number[];
  weightsOfWords: number[];
};

/**
 * Fits the refusal classifiers with and without the embedding. Rounds the weights, so that the evaluated ones are those
 * shipped.
 */
export function fitRefusal(replies: readonly EmbeddedReply[], analyze: TextAnalyzer): FittedRefusal {
  const { grams, rarity } = vocabularyOf(replies, analyze);
  const features = createRefusalFeatureExtractor({ grams, rarity }, analyze);
  const weigh = (withVector: boolean, penalty: number) => {
    const samples = replies.map(({ reply, vector, isRefusal }) => ({
      ...features(reply, countRefusalPhrases(reply), withVector ? vector : null),
      isPositive: isRefusal,
    }));
    const dimensions = withVector ? (replies[0]?.vector.length ?? 0) : 0;
    return Array.from(fitSparseLogistic(samples, grams.length + 2 + dimensions, penalty), rounded);
  };
  return { grams, rarity, weights: weigh(true, penalties.embedding), weightsOfWords: weigh(false, penalties.words) };
}

/**
 * Returns the probability that each reply is a refusal, by classifiers fitted without the replies of the same model.
 */
export function leaveOneModelOut(
  replies: readonly EmbeddedReply[],
  analyze: TextAnalyzer,
): { withEmbedding: number; byWords: number }[] {
  const scores = new Map<EmbeddedReply, { withEmbedding: number; byWords: number }>();
  for (const held of new Set(replies.map(({ model }) => model))) {
    const fitted = fitRefusal(
      replies.filter(({ model }) => model !== held),
      analyze,
    );
    const features = createRefusalFeatureExtractor(fitted, analyze);
    for (const each of replies.filter(({ model }) => model === held)) {
      const wording = countRefusalPhrases(each.reply);
      scores.set(each, {
        withEmbedding: refusalProbability(features(each.reply, wording, each.vector), fitted.weights),
        byWords: refusalProbability(features(each.reply, wording, null), fitted.weightsOfWords),
      });
    }
  }
  return replies.map((each) => scores.get(each) ?? { withEmbedding: Number.NaN, byWords: Number.NaN });
}

function vocabularyOf(replies: readonly LabelledReply[], analyze: TextAnalyzer): { grams: string[]; rarity: number[] } {
  const frequencies = new Map<string, number>();
  for (const { reply } of replies) {
    for (const gram of ngramsOfReplyOpening(reply, analyze).keys())
      frequencies.set(gram, (frequencies.get(gram) ?? 0) + 1);
  }
  const known = [...frequencies].filter(([, count]) => count >= rarestGram).sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    grams: known.map(([gram]) => gram),
    // Smooths the inverse document frequency as if one more reply contained every n-gram.
    rarity: known.map(([, count]) => rounded(1 + Math.log((1 + replies.length) / (1 + count)))),
  };
}

function rounded(value: number): number {
  return Number(value.toFixed(4));
}
