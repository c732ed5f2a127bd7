import type { RefusalWording } from './refusal-wording.ts';
import type { AnalyzeText } from './text-analysis.ts';

/** Refusals are said at once. */
const charactersRead = 400;
const longestGram = 3;
/** Some hundred numbers below 0.2 would count little beside a handful of words. */
const embeddingScale = 2;

/** The runs of one to three stems that a model of refusals looks for, and in their order how rare each is. */
export type RefusalVocabulary = { grams: readonly string[]; rarity: readonly number[] };

/** The features of a reply that are not 0, by their places: grams, the two counts of phrases, the embedding. */
export type RefusalFeatures = { indexes: Uint32Array; values: Float64Array };

export type ReadRefusalFeatures = (
  reply: string,
  wording: RefusalWording,
  vector: Float32Array | null,
) => RefusalFeatures;

/** How often each run of one to three stems occurs in the beginning of a reply. */
export function openingGrams(reply: string, analyze: AnalyzeText): Map<string, number> {
  const stems = analyze(reply.trimStart().slice(0, charactersRead)).map((term) => term.stem);
  const counts = new Map<string, number>();
  for (let length = 1; length <= longestGram; length++) {
    for (let start = 0; start + length <= stems.length; start++) {
      const gram = stems.slice(start, start + length).join(' ');
      counts.set(gram, (counts.get(gram) ?? 0) + 1);
    }
  }
  return counts;
}

/** TF-IDF of the known grams as a vector of length 1, then the counts of phrases, then twice the embedding. */
export function createRefusalFeatures({ grams, rarity }: RefusalVocabulary, analyze: AnalyzeText): ReadRefusalFeatures {
  const places = new Map(grams.map((gram, place) => [gram, place]));
  return (reply, wording, vector) => {
    const indexes: number[] = [];
    const values: number[] = [];
    for (const [gram, count] of openingGrams(reply, analyze)) {
      const place = places.get(gram);
      if (place === undefined) continue;
      indexes.push(place);
      values.push(count * (rarity[place] ?? 0));
    }
    const length = Math.hypot(...values);
    const scaled = values.map((value) => value / length);
    indexes.push(grams.length, grams.length + 1);
    scaled.push(wording.policy, wording.capability);
    vector?.forEach((value, i) => {
      indexes.push(grams.length + 2 + i);
      scaled.push(embeddingScale * value);
    });
    return { indexes: Uint32Array.from(indexes), values: Float64Array.from(scaled) };
  };
}

/** σ(w · x + intercept); the intercept is the last weight. */
export function refusalProbability({ indexes, values }: RefusalFeatures, weights: ArrayLike<number>): number {
  let margin = weights[weights.length - 1] ?? 0;
  for (let i = 0; i < indexes.length; i++) margin += (weights[indexes[i] ?? -1] ?? 0) * (values[i] ?? 0);
  return 1 / (1 + Math.exp(-margin));
}
