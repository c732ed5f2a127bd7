type ChunkingMethod = 'token' | 'semantic';
type RetrievalMode = 'vector' | 'word_match' | 'hybrid';
export type RerankerType = 'cross_encoder' | 'llm';

/** Chunking and retrieval settings of one document. Token counts use the tokenizer o200k_base. */
export type RagConfig = {
  chunking: { method: ChunkingMethod; targetTokens: number; overlapTokens: number };
  retrieval: {
    mode: RetrievalMode;
    rrfK: number;
    wordMatchLimit: number;
    vectorLimit: number;
    minVectorSimilarity: number;
  };
  reranking: { enabled: boolean; rerankerType: RerankerType; topK: number };
  embedding: { model: string };
};

export type ChunkingOptions = {
  method?: ChunkingMethod | undefined;
  targetTokens?: number | undefined;
  overlapTokens?: number | undefined;
};

export const maxChunkTargetTokens = 8192;

const chunkingDefaults = { method: 'token', targetTokens: 400, overlapTokens: 60 } as const;

export function defaultRagConfig(deployment: { embeddingModel: string; hasReranker: boolean }): RagConfig {
  return {
    chunking: { ...chunkingDefaults },
    retrieval: { mode: 'hybrid', rrfK: 60, wordMatchLimit: 50, vectorLimit: 50, minVectorSimilarity: 0.25 },
    reranking: { enabled: deployment.hasReranker, rerankerType: 'cross_encoder', topK: 8 },
    embedding: { model: deployment.embeddingModel },
  };
}

/**
 * Applies the chunking options of a request. A target without an overlap gets the default share of overlap (15 %, at
 * most 60 tokens), so that a small target alone is not rejected for an overlap that the request did not ask for.
 */
export function applyChunkingOptions(config: RagConfig, options: ChunkingOptions): RagConfig {
  const targetTokens = options.targetTokens ?? config.chunking.targetTokens;
  const share = chunkingDefaults.overlapTokens / chunkingDefaults.targetTokens;
  const overlapTokens =
    options.overlapTokens ??
    (options.targetTokens === undefined
      ? config.chunking.overlapTokens
      : Math.min(chunkingDefaults.overlapTokens, Math.floor(targetTokens * share)));
  return {
    ...config,
    chunking: { method: options.method ?? config.chunking.method, targetTokens, overlapTokens },
  };
}

export function isChunkOverlapBelowTarget(chunking: { targetTokens: number; overlapTokens: number }): boolean {
  return chunking.overlapTokens < chunking.targetTokens;
}

/**
 * Maximum number of chunks that are embedded in the activity that runs all steps of a small document: as many as one
 * request to an embedding model accepts.
 */
export const maxChunksOfSmallDocument = 64;
/** Bytes per token of English text. Other languages have fewer, so this underestimates their tokens. */
const bytesPerToken = 4;
/** Maximum size of a small document that is no plain text: most files up to it are converted within a second. */
const maxBytesOfSmallFile = 4 * 1024 * 1024;

/** True for formats that take long to read: pictures need OCR, .ppt files LibreOffice, and archives are unpacked. */
export function isSlowFormat(format: string | null): boolean {
  return format === 'image' || format === 'ppt' || format === 'archive';
}

/**
 * True for a document whose ingestion probably takes only seconds, so that one activity may run all steps: it has few
 * chunks, as far as its size shows that, and they are cut by tokens.
 * @param of.sourceFormat the guessed format; null if only the content shows it
 */
export function isSmallDocument(of: { sourceFormat: string | null; sizeBytes: number; ragConfig: RagConfig }): boolean {
  const { method, targetTokens } = of.ragConfig.chunking;
  if (method !== 'token' || isSlowFormat(of.sourceFormat)) return false;
  const isPlainText = of.sourceFormat === 'text' || of.sourceFormat === 'markdown' || of.sourceFormat === 'code';
  return of.sizeBytes <= (isPlainText ? maxChunksOfSmallDocument * targetTokens * bytesPerToken : maxBytesOfSmallFile);
}

export type ContentHashAndRagConfig = { contentSha256: string; ragConfig: RagConfig };

export function findStaleIngestionResults(
  made: ContentHashAndRagConfig,
  now: ContentHashAndRagConfig,
): { chunking: boolean; embedding: boolean } {
  const [before, after] = [made.ragConfig.chunking, now.ragConfig.chunking];
  const chunking =
    made.contentSha256 !== now.contentSha256 ||
    before.method !== after.method ||
    before.targetTokens !== after.targetTokens ||
    before.overlapTokens !== after.overlapTokens;
  return { chunking, embedding: chunking || made.ragConfig.embedding.model !== now.ragConfig.embedding.model };
}
