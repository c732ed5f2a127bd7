import { inverseDocumentFrequency } from '../retrieval/bm25.ts';
import table from './idf-table.json' with { type: 'json' };
import { refusalModelVersion } from './refusal.ts';

/** An anchor word or phrase of an agent: stems in order, weight 1 to 10, embedding if available. */
export type StemmedAnchorWord = { stems: readonly string[]; weight: number; vector: Float32Array | null };

type ScoredText = { stems: readonly string[]; vector: Float32Array | null };

const softmaxSharpness = 10;
const meanLexicalWeight = 2.2;
const lexicalScale = 1.5;

/** @returns how much a text is about the agent's topic, 0 to 1. Without an embedding, only word matches count. */
export function scoreTextAlignment(
  text: ScoredText,
  anchors: readonly StemmedAnchorWord[],
  calibration: AlignmentCalibration,
): number {
  const lexical = lexicalMatchWithAnchorWords(text.stems, anchors);
  const semantic = text.vector && semanticMatchWithAnchorWords(text.vector, anchors);
  if (semantic === null) return sigmoid(calibration.lexicalOnly.lexical * lexical + calibration.lexicalOnly.intercept);
  return sigmoid(calibration.semantic * semantic + calibration.lexical * lexical + calibration.intercept);
}

/**
 * Weighted soft maximum of the cosines to the anchor words: Σ W e^{10 s} s / Σ W e^{10 s}. One similar anchor word is
 * enough for a high value, but the others count too. Null if no anchor word has an embedding.
 */
export function semanticMatchWithAnchorWords(
  vector: Float32Array,
  anchors: readonly StemmedAnchorWord[],
): number | null {
  let weighted = 0;
  let total = 0;
  for (const anchor of anchors) {
    if (!anchor.vector) continue;
    const similarity = cosineSimilarity(vector, anchor.vector);
    const weight = anchor.weight * Math.exp(softmaxSharpness * similarity);
    weighted += weight * similarity;
    total += weight;
  }
  return total === 0 ? null : weighted / total;
}

/**
 * Lexical match of a text with the anchor words, 0 to 1: 1 − exp(−L / 1.5). L sums weight (scaled to a mean of 2.2)
 * times rarity of the stems over the anchor words whose stems occur in the text in order and adjacent.
 */
export function lexicalMatchWithAnchorWords(stems: readonly string[], anchors: readonly StemmedAnchorWord[]): number {
  const totalWeight = anchors.reduce((sum, anchor) => sum + anchor.weight, 0);
  if (totalWeight === 0) return 0;
  const scale = (meanLexicalWeight * anchors.length) / totalWeight;
  let load = 0;
  for (const anchor of anchors) {
    if (!containsStemPhrase(stems, anchor.stems)) continue;
    load += scale * anchor.weight * anchor.stems.reduce((sum, stem) => sum + rarityOfWordStem(stem), 0);
  }
  return 1 - Math.exp(-load / lexicalScale);
}

export function containsStemPhrase(stems: readonly string[], phrase: readonly string[]): boolean {
  if (phrase.length === 0) return false;
  return stems.some((_, start) => phrase.every((stem, offset) => stems[start + offset] === stem));
}

export function cosineSimilarity(a: Float32Array, b: Float32Array): number {
  let dot = 0;
  let squaredA = 0;
  let squaredB = 0;
  for (let i = 0; i < a.length; i++) {
    const x = a[i] ?? 0;
    const y = b[i] ?? 0;
    dot += x * y;
    squaredA += x * x;
    squaredB += y * y;
  }
  const norm = Math.sqrt(squaredA * squaredB);
  return norm === 0 ? 0 : dot / norm;
}

function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x));
}

const frequencies: ReadonlyMap<string, number> = new Map(
  Object.entries(table.stemsByFrequency).flatMap(([frequency, stems]) =>
    stems.split(' ').map((stem) => [stem, Number(frequency)] as const),
  ),
);

const rarest = inverseDocumentFrequency(0, table.texts);

/**
 * @returns how rare a stem is in English, 0 (in every text) to 1 (in none). The frequencies ship with the application
 * instead of coming from tenants' texts, so that scores are comparable and reproducible.
 */
export function rarityOfWordStem(stem: string): number {
  return inverseDocumentFrequency(frequencies.get(stem) ?? 0, table.texts) / rarest;
}

import fitted from './calibrations.json' with { type: 'json' };

/**
 * Weights of the logistic regression that turns similarity and word matches of a text into its alignment score. They
 * belong to one embedding model, because cosines of other models are distributed differently.
 */
export type AlignmentCalibration = {
  modelId: string;
  dimensions: number;
  version: string;
  semantic: number;
  lexical: number;
  intercept: number;
  lexicalOnly: { lexical: number; intercept: number };
};

/**
 * Alignment weights fitted on CLINC150 (clinc/oos-eval, CC BY 3.0; ten domains as ten agents) by
 * scripts/fit-alignment.ts, which also records the training data and the quality on a held-out domain.
 */
const calibrations: readonly AlignmentCalibration[] = fitted;

export const modelsWithAlignmentCalibration: readonly string[] = calibrations.map(({ modelId }) => modelId);

/** Throws if the embedding model has no calibration: another model's weights would give wrong scores silently. */
export function alignmentCalibrationFor(modelId: string): AlignmentCalibration {
  const calibration = calibrations.find((candidate) => candidate.modelId === modelId);
  if (calibration) return calibration;
  throw new Error(`Alignment is not calibrated for the embedding model "${modelId}".`);
}

/** Version of the scoring code. Increase it with each change of the code that gives the same texts other scores. */
const rulesVersion = 4;

/**
 * Version stored with every scored round; changes whenever the same texts could get other scores.
 * @param isDegraded scored without embeddings; such rounds are scored again once the embedding model is available
 */
export function scorerVersion({ modelId, version }: AlignmentCalibration, isDegraded = false): string {
  const parts = [rulesVersion, modelId, version, refusalModelVersion];
  return (isDegraded ? [...parts, 'words'] : parts).join('/');
}
