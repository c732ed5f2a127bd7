import {
  createRefusalFeatures,
  openingNgrams,
  refusalProbability,
  refusalWording,
} from '#src/domain/alignment/refusal.ts';
import type { AnalyzeText } from '#src/domain/text/words.ts';
import { fitSparseLogistic } from './sparse-logistic.ts';
import type { LabelledReply } from './xstest.ts';

/** A reply with its embedding. */
export type EmbeddedReply = LabelledReply & { vector: Float32Array };

/** A gram in fewer replies says more of their subjects than of refusing. */
const rarestGram = 8;
/** By leaving one model out at a time; words alone have fewer features to be held back. */
const penalties = { embedding: 0.3, words: 0.1 };

export type FittedRefusal = {
  grams: string[];
  rarity: number[];
  /** Intercept last. */
  weights: number[];
  weightsOfWords: number[];
};

/** Fits both models of refusals; rounded, so that what is measured is what is shipped. */
export function fitRefusal(replies: readonly EmbeddedReply[], analyze: AnalyzeText): FittedRefusal {
  const { grams, rarity } = vocabularyOf(replies, analyze);
  const features = createRefusalFeatures({ grams, rarity }, analyze);
  const weigh = (withVector: boolean, penalty: number) => {
    const samples = replies.map(({ reply, vector, isRefusal }) => ({
      ...features(reply, refusalWording(reply), withVector ? vector : null),
      isPositive: isRefusal,
    }));
    const dimensions = withVector ? (replies[0]?.vector.length ?? 0) : 0;
    return Array.from(fitSparseLogistic(samples, grams.length + 2 + dimensions, penalty), rounded);
  };
  return { grams, rarity, weights: weigh(true, penalties.embedding), weightsOfWords: weigh(false, penalties.words) };
}

/** The probability that each reply declines, by models that were fitted without the replies of its own author. */
export function leaveOneModelOut(
  replies: readonly EmbeddedReply[],
  analyze: AnalyzeText,
): { withEmbedding: number; byWords: number }[] {
  const scores = new Map<EmbeddedReply, { withEmbedding: number; byWords: number }>();
  for (const held of new Set(replies.map(({ model }) => model))) {
    const fitted = fitRefusal(
      replies.filter(({ model }) => model !== held),
      analyze,
    );
    const features = createRefusalFeatures(fitted, analyze);
    for (const each of replies.filter(({ model }) => model === held)) {
      const wording = refusalWording(each.reply);
      scores.set(each, {
        withEmbedding: refusalProbability(features(each.reply, wording, each.vector), fitted.weights),
        byWords: refusalProbability(features(each.reply, wording, null), fitted.weightsOfWords),
      });
    }
  }
  return replies.map((each) => scores.get(each) ?? { withEmbedding: Number.NaN, byWords: Number.NaN });
}

function vocabularyOf(replies: readonly LabelledReply[], analyze: AnalyzeText): { grams: string[]; rarity: number[] } {
  const frequencies = new Map<string, number>();
  for (const { reply } of replies) {
    for (const gram of openingNgrams(reply, analyze).keys()) frequencies.set(gram, (frequencies.get(gram) ?? 0) + 1);
  }
  const known = [...frequencies].filter(([, count]) => count >= rarestGram).sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    grams: known.map(([gram]) => gram),
    // Smoothed as if one more reply held every gram.
    rarity: known.map(([, count]) => rounded(1 + Math.log((1 + replies.length) / (1 + count)))),
  };
}

function rounded(value: number): number {
  return Number(value.toFixed(4));
}
