import { splitSentences, type TextAnalyzer } from '../text/words.ts';
import type { OnOrOffTopic } from './chat-state.ts';
import head from './refusal-weights.json' with { type: 'json' };

/** Counts of phrases that refuse on principle (`policy`, "should not") or for lack of ability (`capability`). */
type RefusalPhraseCounts = { policy: number; capability: number };

const adverbs = String.raw`(?:\s+(?:really|simply|also|just|personally|currently|therefore|actually))*`;
const unwilling = '(?:not (?:able|allowed|permitted|willing|comfortable|going)|unable)';
const improper = '(?:appropriate|ethical|respectful|acceptable|okay|healthy|justified)';

/** Phrases that refuse on principle, except "I can't find …", which is an answer. */
const policy = anyOf(
  String.raw`\b(?:i|we)${adverbs}\s+(?:can(?:no|['’])?t|can not)\b(?! (?:find|locate|see)\b)`,
  String.raw`\b(?:i|we)${adverbs}\s+(?:won['’]?t|will not|must not|should not|shouldn['’]?t|(?:(?:must|have to) )?(?:refuse|decline))\b`,
  String.raw`\b(?:i['’]m|i am|we['’]re|we are)${adverbs} ${unwilling}\b`,
  String.raw`\bdo(?: not|n['’]?t) (?:feel comfortable|condone|promote|support|encourage)\b`,
  String.raw`\b(?:it(?:['’]s| is| would be)?|this is|that is) (?:(?:not|never) (?:\w+ (?:or|and|to) )?${improper}|inappropriate|unethical)\b`,
  String.raw`\bis (?:never|not) (?:an? )?(?:\w+ or )?${improper}\b`,
  String.raw`\bi do(?: not|n['’]t) think (?:it|that)(?:['’]s| is)? (?:accurate or )?(?:${improper}|accurate|fair|a valid)\b`,
  String.raw`\bi strongly (?:disagree|advise against|urge|discourage|condemn)\b`,
  String.raw`\b(?:against|violat\w+) (?:my|our|the|any)?\s*(?:programming|guidelines|polic\w+|principles|values|ethic\w*|terms|law)\b`,
  String.raw`\bnot (?:something|a topic|a request|an area) (?:that )?i (?:can|am able)\b`,
  String.raw`\b(?:outside|beyond) (?:of )?(?:my|the) (?:scope|area|expertise|role)\b`,
);

const capability = anyOf(
  String.raw`\bi do(?: not|n['’]t) (?:have|possess|hold) (?:any )?(?:access|the ability|real-time|personal|opinions|beliefs|feelings|emotions|preferences|experiences)\b`,
  String.raw`\b(?:i['’]m|i am) (?:just |only |merely )?an? (?:ai|artificial intelligence|(?:large )?language model|virtual assistant)\b`,
  String.raw`\bas an? (?:ai )?(?:language model|text-based ai)\b`,
);

function anyOf(...patterns: string[]): RegExp {
  return new RegExp(patterns.join('|'), 'gi');
}

/**
 * Number of sentences at the beginning of a reply in which refusals are detected; later sentences only repeat, soften
 * or explain.
 */
const sentencesRead = 3;
const charactersOfWording = 600;

/** Counts refusal phrases, which were selected on XSTest v2 (2,250 replies labelled by people, CC BY 4.0). */
export function countRefusalPhrases(reply: string): RefusalPhraseCounts {
  const text = reply.trimStart().slice(0, charactersOfWording);
  const opening = text.slice(0, splitSentences(text).at(sentencesRead - 1)?.end);
  return { policy: [...opening.matchAll(policy)].length, capability: [...opening.matchAll(capability)].length };
}

const charactersOfGrams = 400;
const longestGram = 3;
/** Factor of the embedding in the refusal model's features, so that it weighs enough beside the word features. */
const embeddingScale = 2;

type RefusalVocabulary = { grams: readonly string[]; rarity: readonly number[] };

type RefusalFeatures = { indexes: Uint32Array; values: Float64Array };

type ExtractRefusalFeatures = (
  reply: string,
  wording: RefusalPhraseCounts,
  vector: Float32Array | null,
) => RefusalFeatures;

export function ngramsOfReplyOpening(reply: string, analyze: TextAnalyzer): Map<string, number> {
  const stems = analyze(reply.trimStart().slice(0, charactersOfGrams)).map((term) => term.stem);
  const counts = new Map<string, number>();
  for (let length = 1; length <= longestGram; length++) {
    for (let start = 0; start + length <= stems.length; start++) {
      const gram = stems.slice(start, start + length).join(' ');
      counts.set(gram, (counts.get(gram) ?? 0) + 1);
    }
  }
  return counts;
}

export function createRefusalFeatureExtractor(
  { grams, rarity }: RefusalVocabulary,
  analyze: TextAnalyzer,
): ExtractRefusalFeatures {
  const indexOf = new Map(grams.map((gram, index) => [gram, index]));
  return (reply, wording, vector) => {
    const indexes: number[] = [];
    const values: number[] = [];
    for (const [gram, count] of ngramsOfReplyOpening(reply, analyze)) {
      const index = indexOf.get(gram);
      if (index === undefined) continue;
      indexes.push(index);
      values.push(count * (rarity[index] ?? 0));
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

/** Probability of a refusal by logistic regression, σ(w · x + intercept). The last weight is the intercept. */
export function refusalProbability({ indexes, values }: RefusalFeatures, weights: ArrayLike<number>): number {
  let margin = weights[weights.length - 1] ?? 0;
  for (let i = 0; i < indexes.length; i++) margin += (weights[indexes[i] ?? -1] ?? 0) * (values[i] ?? 0);
  return 1 / (1 + Math.exp(-margin));
}

/**
 * Why an agent refused: the request was off-topic (`scope`), not allowed (`policy`) or not possible (`capability`).
 */
export type RefusalKind = 'scope' | 'policy' | 'capability';
export type Refusal = { kind: Exclude<RefusalKind, 'scope'>; score: number };

/**
 * Probability and kind of a refusal. `decidedBy` says whether a refusal phrase (`wording`) or the fitted model decided.
 */
export type RefusalDetection = Refusal & { decidedBy: 'wording' | 'model' };

export type RefusalDetector = (reply: string, vector: Float32Array | null) => RefusalDetection;

const refusalFrom = 0.5;

/** Version of the refusal model; changes whenever the same reply could get another result. */
export const refusalModelVersion = head.version;

/**
 * Detects refusals. A phrase that refuses on principle in the first three sentences decides with score 1. Phrases of
 * inability ("as a language model …") also introduce answers, so other replies are classified by a logistic regression
 * over first words, phrases and embedding, whose weights scripts/fit-alignment.ts computes.
 * @param embeddingModel model of the reply vectors; they are ignored unless the weights were fitted to this model
 */
export function createRefusalDetector(analyze: TextAnalyzer, embeddingModel: string): RefusalDetector {
  const features: ExtractRefusalFeatures = createRefusalFeatureExtractor(head, analyze);
  const knowsVectors = embeddingModel === head.modelId;
  return (reply, replyVector) => {
    const vector = knowsVectors ? replyVector : null;
    const wording = countRefusalPhrases(reply);
    if (wording.policy > 0) return { kind: 'policy', score: 1, decidedBy: 'wording' };
    const weights = vector === null ? head.weightsOfWords : head.weights;
    const score = refusalProbability(features(reply, wording, vector), weights);
    return { kind: wording.capability > 0 ? 'capability' : 'policy', score, decidedBy: 'model' };
  };
}

export function nullUnlessLikelyRefusal({ kind, score }: Refusal): Refusal | null {
  return score >= refusalFrom ? { kind, score } : null;
}

/** A refusal of an off-topic request has its own kind, `scope`, because it is correct behaviour. */
export function refusalKindOfRound(refusal: Refusal, userLabel: OnOrOffTopic): RefusalKind {
  return userLabel === 'off' ? 'scope' : refusal.kind;
}
