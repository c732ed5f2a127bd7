import type { TopicLabel } from './alignment-fold.ts';
import { createRefusalFeatures, type ReadRefusalFeatures, refusalProbability } from './refusal-features.ts';
import head from './refusal-weights.json' with { type: 'json' };
import { refusalWording } from './refusal-wording.ts';
import type { AnalyzeText } from './text-analysis.ts';

/** Why an agent declined: the request was off its topic, it should not, or it cannot. */
export type RefusalKind = 'scope' | 'policy' | 'capability';
/** `score` is the probability that the reply declines, 0 to 1. */
export type Refusal = { kind: Exclude<RefusalKind, 'scope'>; score: number };

/**
 * How sure it is that a reply declines, and how it would have done so. `decidedBy` its wording, which is not asked about
 * again, or the model that was fitted to human labels.
 */
export type RefusalReading = Refusal & { decidedBy: 'wording' | 'model' };

export type ReadRefusal = (reply: string, vector: Float32Array | null) => RefusalReading;

const refusalFrom = 0.5;

/** Changes whenever the same reply could be read otherwise. */
export const refusalVersion = head.version;

/**
 * Reads replies. Words of refusing on principle in the first three sentences decide at once, with the score 1. Words of
 * a lack of means ("as a language model …") often begin an answer, so that they are evidence only: all other replies go
 * to a logistic regression over their first words, those phrases and the embedding of the reply; without an embedding
 * to one that was fitted to words alone. The weights come from scripts/fit-alignment.ts.
 * @param embeddingModel whose vectors are read; of another than the weights were fitted to they say nothing
 */
export function createReadRefusal(analyze: AnalyzeText, embeddingModel: string): ReadRefusal {
  const features: ReadRefusalFeatures = createRefusalFeatures(head, analyze);
  const knowsVectors = embeddingModel === head.modelId;
  return (reply, replyVector) => {
    const vector = knowsVectors ? replyVector : null;
    const wording = refusalWording(reply);
    if (wording.policy > 0) return { kind: 'policy', score: 1, decidedBy: 'wording' };
    const weights = vector === null ? head.weightsOfWords : head.weights;
    const score = refusalProbability(features(reply, wording, vector), weights);
    return { kind: wording.capability > 0 ? 'capability' : 'policy', score, decidedBy: 'model' };
  };
}

/** The refusal that a reading comes to, null when it is none. */
export function refusalOf({ kind, score }: Refusal): Refusal | null {
  return score >= refusalFrom ? { kind, score } : null;
}

/** Declining an off-topic request is what the agent is there for, so it is a kind of its own. */
export function refusalKind(refusal: Refusal, userLabel: TopicLabel): RefusalKind {
  return userLabel === 'off' ? 'scope' : refusal.kind;
}
