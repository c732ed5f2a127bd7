/** A chunk's vector. `id` is the chunk's id: writing the same point twice leaves one. */
export type VectorPoint = {
  id: string;
  documentId: string;
  generation: number;
  vector: Float32Array;
};

/**
 * Which documents a query may touch: those of the organization that one of the `acl` keys opens, in their active
 * generation, narrowed by what else is given.
 */
export type ReadableDocuments = {
  orgId: string;
  acl: readonly string[];
  includeDocumentIds?: readonly string[];
  excludeDocumentIds?: readonly string[];
  /** Any of these, as `documents.retrieval_settings` has them. */
  retrievalSettings?: readonly string[];
};

export type VectorHit = { chunkId: string; similarity: number };

export type GenerationKey = { orgId: string; documentId: string; generation: number };

/**
 * A generation that searches may find: with what it was embedded, who may read it and how it is looked for. The last
 * two are those of its document, whose row in Postgres is the truth.
 */
export type PublishedGeneration = GenerationKey & {
  model: string;
  acl: readonly string[];
  retrievalSettings: string;
};

/**
 * Chunk vectors. Vectors of different models never meet in a query. Errors of a store that is down, or too slow, are
 * `service_unavailable`.
 */
export type VectorStore = {
  /** Nobody finds the points before their generation is published; those that are found already go on to be. */
  upsert(input: { orgId: string; model: string; points: readonly VectorPoint[] }): Promise<void>;
  /**
   * Lets searches find the generation's points, or tells those that are found already who may read them now. To be
   * called before the generation becomes the active one, and again whenever its document's keys or settings change. In
   * between a search may give points that are not to be read, or not any more: callers ask Postgres about every hit.
   */
  publish(generation: PublishedGeneration): Promise<void>;
  /** The nearest chunks by cosine similarity (−1..1), best first, ties by chunk id; the filter works before the ranking. */
  search(input: {
    readable: ReadableDocuments;
    model: string;
    vector: Float32Array;
    limit: number;
    minSimilarity: number;
    signal?: AbortSignal;
  }): Promise<VectorHit[]>;
  /** Vectors of given chunks, for those that have one. */
  fetch(input: { orgId: string; model: string; chunkIds: readonly string[] }): Promise<Map<string, Float32Array>>;
  /** Which of these chunks have a vector, of whatever model. */
  findExisting(input: { orgId: string; chunkIds: readonly string[] }): Promise<Set<string>>;
  /** How many points each of these generations has, in their order. */
  countGenerations(generations: readonly GenerationKey[]): Promise<number[]>;
  /**
   * Every generation that has points, in an order of the store's own; one may come more than once.
   * @param page.after `next` of the page before; null at the beginning
   * @returns `next` is null at the end
   */
  listGenerations(page: {
    after: string | null;
    limit: number;
  }): Promise<{ generations: GenerationKey[]; next: string | null }>;
  /** Deletes the document's generations below `before` (all when null), or those of them that are at least `from`. */
  deleteGenerations(input: { orgId: string; documentId: string; from?: number; before: number | null }): Promise<void>;
  /** Brings indexes in line with how much is stored. Called once a day, while the store is in use. */
  maintain(): Promise<void>;
};
