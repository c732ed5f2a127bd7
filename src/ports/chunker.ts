import type { ChunkSource, IndexedChunk } from '#src/domain/chunk-document.ts';

/** For which organization a document is cut: organizations take turns. */
export type Cut = { orgId: string; signal: AbortSignal };

/**
 * Cuts documents without holding up the process.
 * @throws AppError `too_large` for what needs more memory than is allowed, `conversion_timeout` for what takes too long,
 * `rate_limited` when the turn of a large document does not come within seconds
 */
export type Chunker = {
  /** The texts whose `subjectDistance` from one to the next `chunk` wants to know; none unless it cuts by meaning. */
  windows(source: Pick<ChunkSource, 'body' | 'chunking'>, by: Cut): Promise<string[]>;
  /** The chunks in order; the same source and distances give the same. */
  chunk(source: ChunkSource, distances: readonly number[], by: Cut): Promise<IndexedChunk[]>;
};
