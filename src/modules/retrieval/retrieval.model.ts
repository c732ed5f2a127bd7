import { json, type Row, text } from '#src/adapters/postgres/columns.ts';
import { shape } from '#src/adapters/postgres/shapes.ts';
import type { RagConfig } from '#src/domain/rag-config.ts';

/** A chunk that one of the legs found. `score` is the leg's own and only orders that leg. */
export type WordHit = { chunkId: string; score: number };

/** A passage that was found by its words, as a place in its document; `termCount` of the query's terms are in it. */
export type PassageHit = {
  documentId: string;
  generation: number;
  chunkIndex: number;
  score: number;
  termCount: number;
  /** When its document was changed. */
  updatedAt: Date;
};

/** Documents that are looked for in the same way, by vectors of the same model. */
export const documentGroup = shape({
  /** Of the settings and the model: no two groups have the same. */
  signature: text(),
  settings: json<RagConfig['retrieval']>(),
  /** The same as the documents' column has them. */
  retrievalSettings: text(),
  embeddingModel: text(),
});

export type DocumentGroup = Row<typeof documentGroup>;

/** A chunk whose text the caller may read, ready for a prompt. */
export type RetrievedChunk = {
  chunkId: string;
  documentId: string;
  documentName: string;
  pageNumber: number;
  content: string;
  tokenCount: number;
  /** Of its vector. */
  embeddingModel: string;
};

/** A hit with the group and the reranking settings of its document. */
export type Candidate = RetrievedChunk & Pick<DocumentGroup, 'signature'> & Pick<RagConfig, 'reranking'>;

/** Why the answer rests on less than was asked for. */
export type RetrievalDegradation = {
  reason: 'embedder_unavailable' | 'vector_store_unavailable' | 'word_search_unavailable' | 'reranker_unavailable';
};

export type Retrieval = {
  /** Best first. */
  chunks: RetrievedChunk[];
  degradations: RetrievalDegradation[];
};
