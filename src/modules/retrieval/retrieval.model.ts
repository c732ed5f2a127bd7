import type { RagConfig } from '#src/domain/rag-config.ts';

/** A chunk that one of the legs found. `score` is the leg's own and only orders that leg. */
export type WordHit = { chunkId: string; score: number };

/** A chunk whose text the caller may read, ready for a prompt. */
export type RetrievedChunk = {
  chunkId: string;
  documentId: string;
  documentName: string;
  pageNumber: number;
  content: string;
  tokenCount: number;
};

/** A hit with the reranking settings of its document. */
export type Candidate = RetrievedChunk & { reranking: RagConfig['reranking'] };

/** Why the answer rests on less than was asked for. */
export type RetrievalDegradation = {
  reason: 'embedder_unavailable' | 'vector_store_unavailable' | 'reranker_unavailable';
};

export type Retrieval = {
  /** Best first. */
  chunks: RetrievedChunk[];
  degradations: RetrievalDegradation[];
};
