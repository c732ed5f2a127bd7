import type { RagConfig } from './rag-config.ts';

/** What one call of an embedding model takes. */
export const maxSmallChunks = 64;
/** Of English; other languages have fewer, so that a text of theirs may be larger than it looks. */
const bytesPerToken = 4;

/**
 * Formats that are text as they are. Reading any other takes a process of its own and may fail in ways that operators
 * want to see, and that must not be tried twice.
 */
export function isPlain(format: string | null): boolean {
  return format === 'text' || format === 'markdown' || format === 'code';
}

/**
 * True for a document whose ingestion is likely to take seconds: text that is cut by length alone, and not into many
 * chunks. What they overlap is not counted: only the cut tells how many there are.
 * @param of.sourceFormat as it was guessed
 */
export function isSmallDocument(of: { sourceFormat: string | null; sizeBytes: number; ragConfig: RagConfig }): boolean {
  const { method, targetTokens } = of.ragConfig.chunking;
  return (
    isPlain(of.sourceFormat) && method === 'token' && of.sizeBytes <= maxSmallChunks * targetTokens * bytesPerToken
  );
}
