/** Vector of a chunk. Its `id` is the chunk's id, so writing it twice stores it once. */
export type VectorPoint = {
  id: string;
  documentId: string;
  generation: number;
  vector: Float32Array;
};

/**
 * Restricts a search to documents of the organization that one of the `acl` keys grants access to, in their active
 * generation. The optional fields narrow it further.
 */
export type ReadableDocumentsFilter = {
  orgId: string;
  acl: readonly string[];
  includeDocumentIds?: readonly string[];
  excludeDocumentIds?: readonly string[];
  retrievalSettings?: readonly string[];
  /**
   * Only documents in one of these folders, or with one of these ids. A store that does not know the folders ignores
   * it, because each hit is checked against Postgres.
   */
  scope?: { folderIds: readonly string[]; documentIds: readonly string[] };
};

export type VectorHit = { chunkId: string; similarity: number };

export type GenerationKey = { orgId: string; documentId: string; generation: number };

/**
 * A generation that vector searches may find. `acl` and `retrievalSettings` are copied from the document in Postgres.
 */
export type PublishedGeneration = GenerationKey & {
  model: string;
  acl: readonly string[];
  retrievalSettings: string;
};

/** Vectors of chunks. A search compares those of one model only. Throws `service_unavailable` if down or slow. */
export type VectorStore = {
  /** Stores vectors. New ones are found once their generation is published, replaced ones at once. */
  upsert(input: { orgId: string; model: string; points: readonly VectorPoint[] }): Promise<void>;
  /**
   * Makes the vectors of a generation searchable, or updates who may read them. Call it before the generation becomes
   * the active one, and whenever the access keys or settings of its document change. Until the store has applied a
   * change, a search may return chunks that the caller must not see: check every hit against Postgres.
   */
  publish(generation: PublishedGeneration): Promise<void>;
  /**
   * Returns hits sorted by descending cosine similarity (−1 to 1); hits of equal similarity are sorted by chunk id.
   */
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
   * Lists generations that have vectors, in the store's order, possibly with duplicates. `next` is null on the last
   * page.
   */
  listGenerations(page: {
    after: string | null;
    limit: number;
  }): Promise<{ generations: GenerationKey[]; next: string | null }>;
  /**
   * Deletes the vectors of a document's generations from `from` (inclusive; by default the first) to `before`
   * (exclusive; null: up to the newest).
   */
  deleteGenerations(input: { orgId: string; documentId: string; from?: number; before: number | null }): Promise<void>;
  /**
   * Adjusts the indexes to the amount of data, once a day.
   * @returns the number of indexes that were created or dropped
   */
  maintain(): Promise<number>;
};
