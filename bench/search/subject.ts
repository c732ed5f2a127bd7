import type { Knex } from 'knex';
import type { VectorStore } from '../../src/ports/vector-store.ts';
import type { CorpusQuery } from './corpus.ts';

/** An organization with a corpus, and what is measured on it. */
export type SearchSubject = {
  db: Knex;
  orgId: string;
  chunkCount: number;
  queries: readonly CorpusQuery[];
  storeName: string;
  vectors: Pick<VectorStore, 'search'>;
  /** The same store, or another with the same vectors, when it looks at every one of them. */
  exactVectors: Pick<VectorStore, 'search'>;
};
