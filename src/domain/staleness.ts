import type { RagConfig } from './rag-config.ts';

/** What chunks and vectors are made of. */
export type IngestionSource = { contentSha256: string; ragConfig: RagConfig };

/** Which results of an ingestion a document has outgrown: new chunks need new vectors. */
export function staleness(made: IngestionSource, now: IngestionSource): { chunking: boolean; embedding: boolean } {
  const [before, after] = [made.ragConfig.chunking, now.ragConfig.chunking];
  const chunking =
    made.contentSha256 !== now.contentSha256 ||
    before.method !== after.method ||
    before.targetTokens !== after.targetTokens ||
    before.overlapTokens !== after.overlapTokens;
  return { chunking, embedding: chunking || made.ragConfig.embedding.model !== now.ragConfig.embedding.model };
}
