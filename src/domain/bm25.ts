/** How soon repetitions of a term stop counting. */
export const BM25_K1 = 1.2;
/** How much a long text is held against its matches: 0 not at all, 1 fully. */
export const BM25_B = 0.75;

/** Inverse document frequency that never turns negative: ln(1 + (N − df + 0.5) / (df + 0.5)). */
export function inverseDocumentFrequency(documentFrequency: number, documentCount: number): number {
  return Math.log(1 + (documentCount - documentFrequency + 0.5) / (documentFrequency + 0.5));
}

/**
 * What one query term adds to a text's score by Okapi BM25 (Robertson and Zaragoza 2009):
 * idf · tf · (k1 + 1) / (tf + k1 · (1 − b + b · length / averageLength)). Lengths are in terms. The database computes
 * the same over whole collections.
 */
export function bm25TermScore(
  termFrequency: number,
  documentFrequency: number,
  documentCount: number,
  length: number,
  averageLength: number,
): number {
  const idf = inverseDocumentFrequency(documentFrequency, documentCount);
  const norm = BM25_K1 * (1 - BM25_B + (BM25_B * length) / averageLength);
  return (idf * termFrequency * (BM25_K1 + 1)) / (termFrequency + norm);
}
