import type { ChunkSource, IndexedChunk } from '#src/domain/chunk-document.ts';

/** Cuts documents without holding up the process. Throws `too_large` for what needs more memory than is allowed. */
export type Chunker = {
  /** The texts whose `subjectDistance` from one to the next `chunk` wants to know; none unless it cuts by meaning. */
  windows(source: Pick<ChunkSource, 'body' | 'chunking'>, signal: AbortSignal): Promise<string[]>;
  /** The chunks in order; the same source and distances give the same. */
  chunk(source: ChunkSource, distances: readonly number[], signal: AbortSignal): Promise<IndexedChunk[]>;
};
