import type { AlignmentCalibration } from './alignment-calibration.ts';
import { rarity } from './idf.ts';

/** A word or phrase of the agent's topic: its stems in order, its weight 1 to 10, and its embedding where there is one. */
export type Anchor = { stems: readonly string[]; weight: number; vector: Float32Array | null };

/** A text to be scored: its stems in order, and its embedding where there is one. */
export type ScoredText = { stems: readonly string[]; vector: Float32Array | null };

/** How sharply the nearest anchors outweigh the others. */
const softmaxSharpness = 10;
const meanLexicalWeight = 2.2;
const lexicalScale = 1.5;

/**
 * How much a text is about the agent's topic, 0 to 1:
 * σ(semantic · sem + lexical · lex + intercept), by words alone without embeddings.
 */
export function scoreText(text: ScoredText, anchors: readonly Anchor[], calibration: AlignmentCalibration): number {
  const lexical = lexicalMatch(text.stems, anchors);
  const semantic = text.vector && semanticMatch(text.vector, anchors);
  if (semantic === null) return sigmoid(calibration.lexicalOnly.lexical * lexical + calibration.lexicalOnly.intercept);
  return sigmoid(calibration.semantic * semantic + calibration.lexical * lexical + calibration.intercept);
}

/**
 * The weighted soft maximum of the cosines to the anchors: Σ W e^{10 s} s / Σ W e^{10 s}. One close anchor is enough,
 * as with the maximum, but no single anchor decides alone. Null when no anchor is embedded.
 */
export function semanticMatch(vector: Float32Array, anchors: readonly Anchor[]): number | null {
  let weighted = 0;
  let total = 0;
  for (const anchor of anchors) {
    if (!anchor.vector) continue;
    const similarity = cosine(vector, anchor.vector);
    const weight = anchor.weight * Math.exp(softmaxSharpness * similarity);
    weighted += weight * similarity;
    total += weight;
  }
  return total === 0 ? null : weighted / total;
}

/**
 * Words of the anchors in the text: 1 − exp(−L / 1.5), L = Σ over the anchors that occur (as contiguous stemmed
 * phrases) of W′ · Σ rarity of their stems, with W′ the weights scaled to a mean of 2.2.
 */
export function lexicalMatch(stems: readonly string[], anchors: readonly Anchor[]): number {
  const totalWeight = anchors.reduce((sum, anchor) => sum + anchor.weight, 0);
  if (totalWeight === 0) return 0;
  const scale = (meanLexicalWeight * anchors.length) / totalWeight;
  let load = 0;
  for (const anchor of anchors) {
    if (!containsPhrase(stems, anchor.stems)) continue;
    load += scale * anchor.weight * anchor.stems.reduce((sum, stem) => sum + rarity(stem), 0);
  }
  return 1 - Math.exp(-load / lexicalScale);
}

export function containsPhrase(stems: readonly string[], phrase: readonly string[]): boolean {
  if (phrase.length === 0) return false;
  return stems.some((_, start) => phrase.every((stem, offset) => stems[start + offset] === stem));
}

export function cosine(a: Float32Array, b: Float32Array): number {
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
