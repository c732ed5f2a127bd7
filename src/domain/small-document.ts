import type { RagConfig } from './rag-config.ts';

/** What one call of an embedding model takes. */
export const maxSmallChunks = 64;
/** Of English; other languages have fewer, so that a text of theirs may be larger than it looks. */
const bytesPerToken = 4;

/**
 * True for a document whose ingestion is likely to take seconds: cut by length alone, and not into many chunks. What
 * its chunks overlap, and how a format packs its text, is not counted: only the cut tells how many there are.
 */
export function isSmallDocument({ sizeBytes, ragConfig }: { sizeBytes: number; ragConfig: RagConfig }): boolean {
  const { method, targetTokens } = ragConfig.chunking;
  return method === 'token' && sizeBytes <= maxSmallChunks * targetTokens * bytesPerToken;
}
