import { readableBy } from '#src/adapters/postgres/readable.ts';
import { type Actor, visibilityOf } from '#src/domain/visibility.ts';
import type { Db } from '#src/ports/database.ts';
import type { ChunkInContext, ChunkRow } from './documents.model.ts';

/** Reads chunks as readers see them: of the active generation only. */
export function createChunksRepository(db: Db) {
  return {
    /** One statement: an activation between two would make the chunks of neither generation be found. */
    async listActive(actor: Actor, documentId: string): Promise<ChunkRow[]> {
      return readableBy(db('chunks'), actor, 'documents')
        .join('documents', {
          'documents.orgId': 'chunks.orgId',
          'documents.id': 'chunks.documentId',
          'documents.activeGeneration': 'chunks.generation',
        })
        .where('documents.id', documentId)
        .orderBy('chunks.chunkIndex')
        .select(
          'chunks.id',
          'chunks.chunkIndex',
          'chunks.content',
          'chunks.contextualText',
          'chunks.chunkKind',
          'chunks.tokenCount',
          'chunks.embeddingModel',
          'chunks.embeddedAt',
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
