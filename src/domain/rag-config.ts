export type ChunkingMethod = 'token' | 'semantic';
export type RetrievalMode = 'vector' | 'word_match' | 'hybrid';
export type RerankerType = 'cross_encoder' | 'llm';

/** How one document is cut and found. Token counts are of o200k_base. */
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

export type ChunkingWishes = {
  method?: ChunkingMethod | undefined;
  targetTokens?: number | undefined;
  overlapTokens?: number | undefined;
};

export const maxTargetTokens = 8192;

const chunkingDefaults = { method: 'token', targetTokens: 400, overlapTokens: 60 } as const;

/** What a document starts with on a deployment that embeds with `embeddingModel`. */
export function defaultRagConfig(deployment: { embeddingModel: string; hasReranker: boolean }): RagConfig {
  return {
    chunking: { ...chunkingDefaults },
    retrieval: { mode: 'hybrid', rrfK: 60, wordMatchLimit: 50, vectorLimit: 50, minVectorSimilarity: 0.25 },
    reranking: { enabled: deployment.hasReranker, rerankerType: 'cross_encoder', topK: 8 },
    embedding: { model: deployment.embeddingModel },
  };
}

/**
 * The chunking of a request over that of a configuration. A target without an overlap takes the default share of it
 * (15 %), so that a small target alone is not refused for an overlap that nobody asked for.
 */
export function withChunking(config: RagConfig, wishes: ChunkingWishes): RagConfig {
  const targetTokens = wishes.targetTokens ?? config.chunking.targetTokens;
  const share = chunkingDefaults.overlapTokens / chunkingDefaults.targetTokens;
  const overlapTokens =
    wishes.overlapTokens ??
    (wishes.targetTokens === undefined
      ? config.chunking.overlapTokens
      : Math.min(chunkingDefaults.overlapTokens, Math.floor(targetTokens * share)));
  return {
    ...config,
    chunking: { method: wishes.method ?? config.chunking.method, targetTokens, overlapTokens },
  };
}

/** The overlap must leave room for something new in each chunk. */
export function isOverlapBelowTarget(chunking: { targetTokens: number; overlapTokens: number }): boolean {
  return chunking.overlapTokens < chunking.targetTokens;
}
