/** A chunk's vector. `id` is the chunk's id: writing the same point twice leaves one. */
export type VectorPoint = {
  id: string;
  documentId: string;
  generation: number;
  vector: Float32Array;
};

/**
 * Which documents a query may touch: those of the organization that one of the `acl` keys opens, in their active
 * generation, narrowed by the two lists where given.
 */
export type ReadableDocuments = {
  orgId: string;
  acl: readonly string[];
  includeDocumentIds?: readonly string[];
  excludeDocumentIds?: readonly string[];
};

export type VectorHit = { chunkId: string; similarity: number };

/** Chunk vectors. Vectors of different models never meet in a query. */
export type VectorStore = {
  upsert(input: { orgId: string; model: string; points: readonly VectorPoint[] }): Promise<void>;
  /** The nearest chunks by cosine similarity (−1..1), best first; the filter works before the ranking. */
  search(input: {
    readable: ReadableDocuments;
    model: string;
    vector: Float32Array;
    limit: number;
    minSimilarity: number;
  }): Promise<VectorHit[]>;
  /** Vectors of given chunks, for those that have one. */
  fetch(input: { orgId: string; model: string; chunkIds: readonly string[] }): Promise<Map<string, Float32Array>>;
  countGeneration(input: { orgId: string; documentId: string; generation: number }): Promise<number>;
  /** Deletes the document's generations below `before` (all when null); a newer one may be in the making. */
  deleteGenerations(input: { orgId: string; documentId: string; before: number | null }): Promise<void>;
};
