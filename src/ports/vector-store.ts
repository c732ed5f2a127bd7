/** The id of a point is the chunk's id, so writing a point twice stores it once. */
export type VectorPoint = {
  id: string;
  documentId: string;
  generation: number;
  vector: Float32Array;
};

/**
 * Filter of a query: documents of the organization that one of the `acl` keys grants access to, in their active
 * generation, narrowed by the other fields.
 */
export type ReadableDocumentsFilter = {
  orgId: string;
  acl: readonly string[];
  includeDocumentIds?: readonly string[];
  excludeDocumentIds?: readonly string[];
  retrievalSettings?: readonly string[];
};

export type VectorHit = { chunkId: string; similarity: number };

export type GenerationKey = { orgId: string; documentId: string; generation: number };

/** A generation that searches may find. `acl` and `retrievalSettings` are copied from the document in Postgres. */
export type PublishedGeneration = GenerationKey & {
  model: string;
  acl: readonly string[];
  retrievalSettings: string;
};

/**
 * Chunk vectors. A query only compares vectors of one model. Throws `service_unavailable` when the store is down or too
 * slow.
 */
export type VectorStore = {
  /**
   * Stores points. New points cannot be found until their generation is published; points that replace published ones
   * can.
   */
  upsert(input: { orgId: string; model: string; points: readonly VectorPoint[] }): Promise<void>;
  /**
   * Makes the points of a generation searchable, or updates who may read them. Call it before the generation becomes
   * the active one, and whenever its document's access keys or settings change. Until a change arrives, a search may
   * return points that the caller must not see: check every hit against Postgres.
   */
  publish(generation: PublishedGeneration): Promise<void>;
  /** Returns the best hits first by cosine similarity (−1 to 1); ties are ordered by chunk id. */
  search(input: {
    readable: ReadableDocumentsFilter;
    model: string;
    vector: Float32Array;
    limit: number;
    minSimilarity: number;
    signal?: AbortSignal;
  }): Promise<VectorHit[]>;
  fetch(input: { orgId: string; model: string; chunkIds: readonly string[] }): Promise<Map<string, Float32Array>>;
  findExisting(input: { orgId: string; chunkIds: readonly string[] }): Promise<Set<string>>;
  countGenerations(generations: readonly GenerationKey[]): Promise<number[]>;
  /**
   * Lists the generations that have points, in the store's own order, possibly with duplicates. `next` is null on the
   * last page.
   */
  listGenerations(page: {
    after: string | null;
    limit: number;
  }): Promise<{ generations: GenerationKey[]; next: string | null }>;
  /**
   * Deletes the document's generations from `from` (default: the first) up to but not including `before` (null: all).
   */
  deleteGenerations(input: { orgId: string; documentId: string; from?: number; before: number | null }): Promise<void>;
  /** Adjusts indexes to the amount of data. Runs once a day while the store is in use. */
  maintain(): Promise<void>;
};
