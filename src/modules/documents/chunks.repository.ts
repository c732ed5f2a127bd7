import type { Knex } from 'knex';
import { whereReadableByActor } from '#src/adapters/postgres/readable.ts';
import { queryFirstRow, queryRows } from '#src/adapters/postgres/shapes.ts';
import { type Actor, visibilityOfAccessKeys } from '#src/domain/access/visibility.ts';
import {
  type ChunkInContext,
  ChunkModel,
  type ChunkRow,
  chunkInDocumentRowShape,
  chunkRowShape,
} from './documents.model.ts';

/** Reads chunks of the active generation, the only one that readers see. */
export function createChunksRepository(db: Knex) {
  return {
    /**
     * Reads generation and chunks in one statement: between two statements a new generation could become active, and
     * the second would find no chunks.
     */
    async listActive(actor: Actor, documentId: string): Promise<ChunkRow[]> {
      const chunks = whereReadableByActor(ChunkModel.table(db), actor, 'documents')
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
      return queryRows(db, chunkRowShape, chunks);
    },

    async findActive(actor: Actor, chunkId: string): Promise<ChunkInContext | undefined> {
      const found = whereReadableByActor(ChunkModel.table(db), actor, 'documents')
        .join('documents', {
          'documents.orgId': 'chunks.orgId',
          'documents.id': 'chunks.documentId',
          'documents.activeGeneration': 'chunks.generation',
        })
        .where('chunks.id', chunkId)
        .select(
          'chunks.id',
          'chunks.chunkIndex',
          'chunks.content',
          'chunks.pageNumber',
          'chunks.contentOffset',
          'documents.id as documentId',
          'documents.name as documentName',
          'documents.acl',
        );
      const row = await queryFirstRow(db, chunkInDocumentRowShape, found);
      if (row === undefined) return undefined;
      const { acl, ...chunk } = row;
      return { ...chunk, visibility: visibilityOfAccessKeys(acl) };
    },
  };
}
