export const BM25_K1 = 1.2;
export const BM25_B = 0.75;

export function inverseDocumentFrequency(documentFrequency: number, documentCount: number): number {
  return Math.log(1 + (documentCount - documentFrequency + 0.5) / (documentFrequency + 0.5));
}

/**
 * Score of one query term in a text by Okapi BM25 (Robertson and Zaragoza 2009): idf · tf · (k1 + 1) / (tf + k1 · (1 −
 * b + b · length / averageLength)). Lengths are in terms. Must agree with the SQL of the search.
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

/**
 * Number of chunks of a document that share one row per term in the search index; small enough for the row to fit in an
 * entry of a covering index.
 */
export const CHUNKS_PER_POSTING_BLOCK = 128;

/** Larger term frequencies and lengths are clamped; BM25 is almost constant there. */
const maxFrequency = 1_023;
const maxLength = 16_383;

export type ChunkTermCounts = { index: number; terms: ReadonlyMap<string, number>; termCount: number };

type PostingBlock = { term: string; block: number; postings: number[] };

export function toPostingBlocks(chunks: readonly ChunkTermCounts[]): PostingBlock[] {
  const blocks = new Map<string, PostingBlock>();
  for (const { index, terms, termCount } of chunks) {
    const block = Math.floor(index / CHUNKS_PER_POSTING_BLOCK);
    for (const [term, frequency] of terms) {
      const posting = packPosting({ offset: index % CHUNKS_PER_POSTING_BLOCK, frequency, length: termCount });
      const key = `${block} ${term}`;
      const known = blocks.get(key);
      if (known === undefined) blocks.set(key, { term, block, postings: [posting] });
      else known.postings.push(posting);
    }
  }
  return [...blocks.values()];
}

/**
 * Packs the chunk's offset in its block (7 bits), the term frequency (10) and the chunk's length (14) into an integer.
 */
function packPosting({ offset, frequency, length }: { offset: number; frequency: number; length: number }): number {
  return (offset << 24) | (Math.min(frequency, maxFrequency) << 14) | Math.min(length, maxLength);
}
