import type { Knex } from 'knex';
import type { VectorStore } from '../../src/ports/vector-store.ts';
import type { CorpusQuery } from './corpus.ts';

export type SearchSubject = {
  db: Knex;
  orgId: string;
  chunkCount: number;
  queries: readonly CorpusQuery[];
  storeName: string;
  vectors: Pick<VectorStore, 'search'>;
};
