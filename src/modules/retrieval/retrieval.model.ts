import {
  bigint,
  double,
  integer,
  json,
  type Row,
  shape,
  text,
  timestamp,
  uuid,
} from '#src/adapters/postgres/shapes.ts';
import type { RagConfig } from '#src/domain/documents/rag-config.ts';

/** A chunk that a BM25 search found. Scores are comparable only within one search. */
export const wordSearchHit = shape({ chunkId: uuid(), score: double() });
export type WordSearchHit = Row<typeof wordSearchHit>;

/** A passage that a word search found. It contains `termCount` of the query's terms. */
export const passageHit = shape({
  documentId: uuid(),
  generation: integer(),
  chunkIndex: integer(),
  score: double(),
  termCount: bigint(),
  updatedAt: timestamp(),
});
export type PassageHit = Row<typeof passageHit>;

/** A group of documents with the same retrieval settings and the same embedding model. */
export const documentGroup = shape({
  signature: text(),
  settings: json<RagConfig['retrieval']>(),
  retrievalSettings: text(),
  embeddingModel: text(),
});

export type DocumentGroup = Row<typeof documentGroup>;

/** A chunk that is readable for the caller, with the fields that a prompt needs. */
const retrievedChunk = shape({
  chunkId: uuid(),
  documentId: uuid(),
  documentName: text(),
  pageNumber: integer(),
  content: text(),
  tokenCount: integer(),
  embeddingModel: text(),
});
export type RetrievedChunk = Row<typeof retrievedChunk>;

export const retrievalCandidate = shape({
  ...retrievedChunk.columns,
  signature: text(),
  reranking: json<RagConfig['reranking']>(),
});
export type RetrievalCandidate = Row<typeof retrievalCandidate>;

export const documentPartChunk = shape({ ...retrievedChunk.columns, chunkCount: integer() });
export type DocumentPartChunk = Row<typeof documentPartChunk>;

export type RetrievalDegradation = {
  reason: 'embedder_unavailable' | 'vector_store_unavailable' | 'word_search_unavailable' | 'reranker_unavailable';
};

export type RetrievalResult = {
  chunks: RetrievedChunk[];
  degradations: RetrievalDegradation[];
};
