/**
 * How many chunks of a document share a row for each term: few enough that the row fits into an index entry, where a
 * search reads it beside its neighbours.
 */
export const CHUNKS_PER_BLOCK = 128;

/** What is more counts as this much: BM25 hardly moves there. */
const maxFrequency = 1_023;
const maxLength = 16_383;

/** What the word index holds of a chunk. `termCount` is its length in terms. */
export type ChunkWords = { index: number; terms: ReadonlyMap<string, number>; termCount: number };

/** The postings of a term in one block of chunks: one for each chunk that has the term, in their order. */
export type PostingBlock = { term: string; block: number; postings: number[] };

/** The postings of a document's chunks, which come in their order. */
export function toPostingBlocks(chunks: readonly ChunkWords[]): PostingBlock[] {
  const blocks = new Map<string, PostingBlock>();
  for (const { index, terms, termCount } of chunks) {
    const block = Math.floor(index / CHUNKS_PER_BLOCK);
    for (const [term, frequency] of terms) {
      const posting = packPosting({ place: index % CHUNKS_PER_BLOCK, frequency, length: termCount });
      const key = `${block} ${term}`;
      const known = blocks.get(key);
      if (known === undefined) blocks.set(key, { term, block, postings: [posting] });
      else known.postings.push(posting);
    }
  }
  return [...blocks.values()];
}

/** The chunk's place in its block, how often it has the term, and its length: 7, 10 and 14 bits. */
function packPosting({ place, frequency, length }: { place: number; frequency: number; length: number }): number {
  return (place << 24) | (Math.min(frequency, maxFrequency) << 14) | Math.min(length, maxLength);
}
