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

/** One generation of a document, as a place in the store's order: by organization, document and generation. */
export type GenerationKey = { orgId: string; documentId: string; generation: number };

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
  /** Which of these chunks have a vector, of whatever model. */
  findExisting(input: { orgId: string; chunkIds: readonly string[] }): Promise<Set<string>>;
  countGeneration(of: GenerationKey): Promise<number>;
  /** Every generation that has points, in order, with their number; `after` is the last one of the page before. */
  listGenerations(page: { after: GenerationKey | null; limit: number }): Promise<(GenerationKey & { count: number })[]>;
  /** Deletes the document's generations below `before` (all when null), or those of them that are at least `from`. */
  deleteGenerations(input: { orgId: string; documentId: string; from?: number; before: number | null }): Promise<void>;
};
