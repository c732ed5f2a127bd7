import { readableBy } from '#src/adapters/postgres/readable.ts';
import { type Actor, visibilityOf } from '#src/domain/visibility.ts';
import type { Db } from '#src/ports/database.ts';
import type { ChunkInContext, ChunkRow, DocumentRow } from './documents.model.ts';

/** Reads chunks as readers see them: of the active generation only. */
export function createChunksRepository(db: Db) {
  return {
    async listActive(document: Pick<DocumentRow, 'orgId' | 'id' | 'activeGeneration'>): Promise<ChunkRow[]> {
      if (document.activeGeneration === null) return [];
      return db('chunks')
        .where({ orgId: document.orgId, documentId: document.id, generation: document.activeGeneration })
        .orderBy('chunkIndex')
        .select(
          'id',
          'chunkIndex',
          'content',
          'contextualText',
          'chunkKind',
          'tokenCount',
          'embeddingModel',
          'embeddedAt',
        );
    },

    async findActive(actor: Actor, chunkId: string): Promise<ChunkInContext | undefined> {
      const row = await readableBy(db('chunks'), actor, 'documents')
        .join('documents', {
          'documents.orgId': 'chunks.orgId',
          'documents.id': 'chunks.documentId',
          'documents.activeGeneration': 'chunks.generation',
        })
        .where('chunks.id', chunkId)
        .first<(Omit<ChunkInContext, 'visibility'> & { acl: string[] }) | undefined>(
          'chunks.id',
          'chunks.chunkIndex',
          'chunks.content',
          'chunks.pageNumber',
          'chunks.contentOffset',
          'documents.id as documentId',
          'documents.name as documentName',
          'documents.acl',
        );
      if (row === undefined) return undefined;
      const { acl, ...chunk } = row;
      return { ...chunk, visibility: visibilityOf(acl) };
    },
  };
}
