/**
 * Id of a vector space. Shortened vectors form their own space: `model@256` are vectors of `model` with 256 dimensions.
 */
export function embeddingSpaceId(model: string, dimensions: number | null): string {
  return dimensions === null ? model : `${model}@${dimensions}`;
}

export function parseEmbeddingSpaceId(id: string): { model: string; dimensions: number | null } {
  const { model = id, dimensions } = /^(?<model>.+)@(?<dimensions>[1-9]\d{0,4})$/.exec(id)?.groups ?? {};
  return { model, dimensions: dimensions === undefined ? null : Number(dimensions) };
}

export type EmbeddingBatchLimits = { texts: number; tokens: number };

/**
 * Groups texts of the given token counts into embedding requests: longest first, so that texts of similar length share
 * a request (servers pad to the longest) and the last requests are short. A text above the limit gets a request of its
 * own.
 * @returns indexes into `tokenCounts`, one list per request; every index once
 */
export function planEmbeddingBatches(tokenCounts: readonly number[], limits: EmbeddingBatchLimits): number[][] {
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

/** Weighted mean of unit vectors, scaled to unit length: the vector of a text that was embedded in parts. */
export function weightedMeanVector(parts: readonly { vector: Float32Array; weight: number }[]): Float32Array {
  const sum = new Float32Array(parts[0]?.vector.length ?? 0);
  for (const { vector, weight } of parts) {
    vector.forEach((value, dimension) => {
      sum[dimension] = (sum[dimension] ?? 0) + weight * value;
    });
  }
  return toUnitLength(sum);
}

export function toUnitLength(vector: Float32Array): Float32Array {
  let squares = 0;
  for (const value of vector) squares += value * value;
  const length = Math.sqrt(squares);
  return vector.map((value) => value / length);
}

export function splitTextInHalves(text: string): [string, string] {
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
