import type { Knex } from 'knex';
import { NIL } from 'uuid';
import { integer, pick, type Row, rows, shape, text, textArray, uuid } from '#src/adapters/postgres/shapes.ts';
import { ChunkModel } from '#src/modules/documents/documents.model.ts';
import type { GenerationKey } from '#src/ports/vector-store.ts';

/** A generation that readers see, with what its points are published as. */
const activeGeneration = shape({
  orgId: uuid(),
  documentId: uuid(),
  generation: integer(),
  chunksTotal: integer(),
  model: text(),
  acl: textArray(),
  retrievalSettings: text(),
});
export type ActiveGeneration = Row<typeof activeGeneration>;

/** What a chunk was embedded as. */
const chunkHash = pick(ChunkModel, 'id', 'chunkIndex', 'textSha256');
export type ChunkHash = Row<typeof chunkHash>;

export function createVectorRebuildRepository(db: Knex) {
  return {
    /** Those that have chunks, in the order of their documents. */
    async listActive(after: string | null, limit: number): Promise<ActiveGeneration[]> {
      const active = db('documents as d')
        .join('documentGenerations as g', { 'g.documentId': 'd.id', 'g.generation': 'd.activeGeneration' })
        .whereNull('d.deletedAt')
        .where('g.chunksTotal', '>', 0)
        .where('d.id', '>', after ?? NIL)
        .orderBy('d.id')
        .limit(limit)
        .select([
          ...['d.orgId', 'd.id as documentId', 'g.generation', 'g.chunksTotal'],
          ...['g.embeddingModel as model', 'd.acl', 'd.retrievalSettings'],
        ]);
      return rows(db, activeGeneration, active);
    },

    async listChunks(
      { orgId, documentId, generation }: GenerationKey,
      after: number,
      limit: number,
    ): Promise<ChunkHash[]> {
      return ChunkModel.table(db)
        .where({ orgId, documentId, generation })
        .where('chunkIndex', '>', after)
        .orderBy('chunkIndex')
        .limit(limit)
        .select('id', 'chunkIndex', 'textSha256');
    },
  };
}
