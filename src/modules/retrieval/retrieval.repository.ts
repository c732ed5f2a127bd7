import { readableBy } from '#src/adapters/postgres/readable.ts';
import type { Actor } from '#src/domain/visibility.ts';
import type { Db } from '#src/ports/database.ts';
import type { Candidate } from './retrieval.model.ts';

export function createRetrievalRepository(db: Db) {
  const readableChunks = (actor: Actor, chunkIds: readonly string[]) =>
    readableBy(db('documents as d'), actor, 'd')
      .join('chunks as c', (on) =>
        on.on('c.orgId', 'd.orgId').andOn('c.documentId', 'd.id').andOn('c.generation', 'd.activeGeneration'),
      )
      .whereIn('c.id', chunkIds);

  return {
    /** The texts of those chunks that the actor may read now and that are in their document's active generation. */
    async loadReadable(actor: Actor, chunkIds: readonly string[]): Promise<Candidate[]> {
      return readableChunks(actor, chunkIds).select({
        chunkId: 'c.id',
        documentId: 'c.documentId',
        documentName: 'd.name',
        pageNumber: 'c.pageNumber',
        content: 'c.content',
        tokenCount: 'c.tokenCount',
        reranking: db.raw("d.rag_config -> 'reranking'"),
      });
    },

    async readableChunkIds(actor: Actor, chunkIds: readonly string[]): Promise<Set<string>> {
      return new Set(await readableChunks(actor, chunkIds).pluck('c.id'));
    },

    /** Those of the ids that name a document which the actor may read. */
    async readableDocumentIds(actor: Actor, documentIds: readonly string[]): Promise<Set<string>> {
      if (documentIds.length === 0) return new Set();
      const rows: string[] = await readableBy(db('documents'), actor, 'documents')
        .whereIn('id', documentIds)
        .pluck('id');
      return new Set(rows);
    },
  };
}
