/** What one call may hold. */
export type BatchLimits = { texts: number; tokens: number };

/**
 * Divides texts into calls, given their lengths in tokens: longest first, so that texts of similar length share a call
 * (servers pad to the longest) and the last calls are short. A text beyond the limit has a call of its own.
 * @returns indexes into `tokenCounts`, one list a call; every index once
 */
export function planBatches(tokenCounts: readonly number[], limits: BatchLimits): number[][] {
  const longestFirst = tokenCounts.map((_, index) => index).sort((a, b) => lengthAt(b) - lengthAt(a) || a - b);
  const batches: number[][] = [];
  let batch: number[] = [];
  let tokens = 0;
  for (const index of longestFirst) {
    const isFull = batch.length >= limits.texts || tokens + lengthAt(index) > limits.tokens;
    if (batch.length === 0 || isFull) {
      batch = [];
      batches.push(batch);
      tokens = 0;
    }
    batch.push(index);
    tokens += lengthAt(index);
  }
  return batches;

  function lengthAt(index: number): number {
    return tokenCounts[index] ?? 0;
  }
}

/** The mean of unit vectors by weight, scaled to unit length: what a text is whose pieces were embedded. */
export function poolVectors(parts: readonly { vector: Float32Array; weight: number }[]): Float32Array {
  const sum = new Float32Array(parts[0]?.vector.length ?? 0);
  for (const { vector, weight } of parts) {
    vector.forEach((value, dimension) => {
      sum[dimension] = (sum[dimension] ?? 0) + weight * value;
    });
  }
  return toUnitLength(sum);
}

/** A vector without a direction (all zeros, or numbers that are none) gives one that is not finite. */
export function toUnitLength(vector: Float32Array): Float32Array {
  let squares = 0;
  for (const value of vector) squares += value * value;
  const length = Math.sqrt(squares);
  return vector.map((value) => value / length);
}

/** The two pieces of a text, cut at the space nearest to its middle. */
export function halves(text: string): [string, string] {
  const middle = Math.floor(text.length / 2);
  const before = text.lastIndexOf(' ', middle);
  const after = text.indexOf(' ', middle);
  const candidates = [before, after].filter((cut) => cut > 0 && cut < text.length - 1);
  const nearest = candidates.sort((a, b) => Math.abs(a - middle) - Math.abs(b - middle))[0];
  const cut = nearest ?? (isInsidePair(text, middle) ? middle + 1 : middle);
  return [text.slice(0, cut), text.slice(cut)];
}

function isInsidePair(text: string, offset: number): boolean {
  const code = text.charCodeAt(offset);
  return code >= 0xdc00 && code <= 0xdfff;
}
