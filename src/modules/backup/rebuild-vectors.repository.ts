import { NIL } from 'uuid';
import type { Db } from '#src/ports/database.ts';
import type { GenerationKey, PublishedGeneration } from '#src/ports/vector-store.ts';

/** A generation that readers see, with what its points are published as. */
export type ActiveGeneration = PublishedGeneration & { chunksTotal: number };

/** What a chunk was embedded as; null for one of before hashes were kept. */
export type ChunkHash = { id: string; chunkIndex: number; textSha256: Buffer | null };

export function createVectorRebuildRepository(db: Db) {
  return {
    /** Those that have chunks, in the order of their documents. */
    async listActive(after: string | null, limit: number): Promise<ActiveGeneration[]> {
      return db('documents as d')
        .join('documentGenerations as g', { 'g.documentId': 'd.id', 'g.generation': 'd.activeGeneration' })
        .whereNull('d.deletedAt')
        .where('g.chunksTotal', '>', 0)
        .where('d.id', '>', after ?? NIL)
        .orderBy('d.id')
        .limit(limit)
        .select<ActiveGeneration[]>([
          ...['d.orgId', 'd.id as documentId', 'g.generation', 'g.chunksTotal'],
          ...['g.embeddingModel as model', 'd.acl', 'd.retrievalSettings'],
        ]);
    },

    async listChunks(
      { orgId, documentId, generation }: GenerationKey,
      after: number,
      limit: number,
    ): Promise<ChunkHash[]> {
      return db('chunks')
        .where({ orgId, documentId, generation })
        .where('chunkIndex', '>', after)
        .orderBy('chunkIndex')
        .limit(limit)
        .select<ChunkHash[]>('id', 'chunkIndex', 'textSha256');
    },
  };
}
