import {
  bigintColumn,
  defineRowShape,
  doubleColumn,
  integerArrayColumn,
  integerColumn,
  jsonColumn,
  type SqlRow,
  textArrayColumn,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { RagConfig } from '#src/domain/documents/rag-config.ts';

/** A chunk that a BM25 search found. Scores are comparable only within one search. */
export const wordSearchHitRowShape = defineRowShape({ chunkId: uuidColumn(), score: doubleColumn() });
export type WordSearchHit = SqlRow<typeof wordSearchHitRowShape>;

/** A passage that a word search found. It contains `termCount` of the query's terms. */
export const passageHitRowShape = defineRowShape({
  documentId: uuidColumn(),
  generation: integerColumn(),
  chunkIndex: integerColumn(),
  score: doubleColumn(),
  termCount: bigintColumn(),
  updatedAt: timestampColumn(),
  language: textColumn(),
});
export type PassageHit = SqlRow<typeof passageHitRowShape>;

export const documentGroupRowShape = defineRowShape({
  signature: textColumn(),
  settings: jsonColumn<RagConfig['retrieval']>(),
  retrievalSettings: textColumn(),
  embeddingModel: textColumn(),
  languages: textArrayColumn(),
});

export type DocumentGroup = SqlRow<typeof documentGroupRowShape>;

/** A chunk that is readable for the caller, with the fields that a prompt needs. */
const retrievedChunk = defineRowShape({
  chunkId: uuidColumn(),
  documentId: uuidColumn(),
  documentName: textColumn(),
  pageNumber: integerColumn(),
  content: textColumn(),
  tokenCount: integerColumn(),
  embeddingModel: textColumn(),
});
export type RetrievedChunk = SqlRow<typeof retrievedChunk>;

export const retrievalCandidateRowShape = defineRowShape({
  ...retrievedChunk.columns,
  signature: textColumn(),
  reranking: jsonColumn<RagConfig['reranking']>(),
});
export type RetrievalCandidate = SqlRow<typeof retrievalCandidateRowShape>;

/**
 * `pageMap` holds the offset of each page in the document's text; null for a format without pages. `chunkedName` is the
 * name that the document had when it was chunked.
 */
export const chunkPlaceRowShape = defineRowShape({
  chunkId: uuidColumn(),
  contentOffset: integerColumn(),
  chunkKind: textColumn(),
  contextualText: textColumn().nullable(),
  chunkedName: textColumn(),
  pageMap: integerArrayColumn().nullable(),
});
export type ChunkPlace = SqlRow<typeof chunkPlaceRowShape>;

export const recentPassageRowShape = defineRowShape({ documentId: uuidColumn(), content: textColumn() });
export type RecentPassage = SqlRow<typeof recentPassageRowShape>;

export const documentPartChunkRowShape = defineRowShape({ ...retrievedChunk.columns, chunkCount: integerColumn() });
export type DocumentPartChunk = SqlRow<typeof documentPartChunkRowShape>;

export type RetrievalDegradation = {
  reason: 'embedder_unavailable' | 'vector_store_unavailable' | 'word_search_unavailable' | 'reranker_unavailable';
};

export type RetrievalResult = {
  chunks: RetrievedChunk[];
  degradations: RetrievalDegradation[];
};
