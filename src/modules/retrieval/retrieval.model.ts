import { bigint, double, integer, json, type Row, text, timestamp, uuid } from '#src/adapters/postgres/columns.ts';
import { shape } from '#src/adapters/postgres/shapes.ts';
import type { RagConfig } from '#src/domain/documents/rag-config.ts';

/** A chunk that one of the legs found. `score` is the leg's own and only orders that leg. */
export const wordHit = shape({ chunkId: uuid(), score: double() });
export type WordHit = Row<typeof wordHit>;

/** A passage that was found by its words, as a place in its document; `termCount` of the query's terms are in it. */
export const passageHit = shape({
  documentId: uuid(),
  generation: integer(),
  chunkIndex: integer(),
  score: double(),
  termCount: bigint(),
  /** When its document was changed. */
  updatedAt: timestamp(),
});
export type PassageHit = Row<typeof passageHit>;

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
const retrievedChunk = shape({
  chunkId: uuid(),
  documentId: uuid(),
  documentName: text(),
  pageNumber: integer(),
  content: text(),
  tokenCount: integer(),
  /** Of its vector. */
  embeddingModel: text(),
});
export type RetrievedChunk = Row<typeof retrievedChunk>;

/** A hit with the group and the reranking settings of its document. */
export const candidate = shape({
  ...retrievedChunk.columns,
  signature: text(),
  reranking: json<RagConfig['reranking']>(),
});
export type Candidate = Row<typeof candidate>;

/** With the number of chunks of its document. */
export const chunkOfRun = shape({ ...retrievedChunk.columns, chunkCount: integer() });
export type ChunkOfRun = Row<typeof chunkOfRun>;

/** Why the answer rests on less than was asked for. */
export type RetrievalDegradation = {
  reason: 'embedder_unavailable' | 'vector_store_unavailable' | 'word_search_unavailable' | 'reranker_unavailable';
};

export type Retrieval = {
  /** Best first. */
  chunks: RetrievedChunk[];
  degradations: RetrievalDegradation[];
};
