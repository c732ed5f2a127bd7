import type { Knex } from 'knex';
import { NIL } from 'uuid';
import { replaceChunkWords } from '#src/adapters/postgres/chunks.ts';
import {
  defineRowShape,
  integerColumn,
  pickColumns,
  queryRows,
  type SqlRow,
  textColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { ChunkTermCounts } from '#src/domain/retrieval/bm25.ts';
import { ChunkModel, DocumentModel } from '#src/modules/documents/documents.model.ts';
import { GenerationModel } from './ingestion.model.ts';

const outdatedGeneration = pickColumns(GenerationModel, 'orgId', 'documentId', 'generation', 'analyzerVersion');
export type OutdatedGeneration = SqlRow<typeof outdatedGeneration>;

const indexedText = defineRowShape({
  chunkIndex: integerColumn(),
  contextualText: textColumn(),
  content: textColumn(),
});

export function createReindexingRepository(db: Knex) {
  return {
    /** Lists active generations whose words an older version of the text analyzer has indexed. */
    async listOutdated(version: number, after: string | null, limit: number): Promise<OutdatedGeneration[]> {
      const outdated = db('documentGenerations as g')
        .join('documents as d', { 'd.id': 'g.documentId', 'd.activeGeneration': 'g.generation' })
        .whereNull('d.deletedAt')
        // A literal, so that the planner can use the partial index.
        .whereRaw(`g.analyzer_version < ${version}`)
        .where('g.documentId', '>', after ?? NIL)
        .orderBy('g.documentId')
        .limit(limit)
        .select('g.orgId', 'g.documentId', 'g.generation', 'g.analyzerVersion');
      return queryRows(db, outdatedGeneration, outdated);
    },

    async readTexts({ orgId, documentId, generation }: OutdatedGeneration): Promise<SqlRow<typeof indexedText>[]> {
      const texts = ChunkModel.table(db)
        .where({ orgId, documentId, generation })
        .orderBy('chunkIndex')
        .select('chunkIndex', 'content', db.raw("coalesce(contextual_text, '') as contextual_text"));
      return queryRows(db, indexedText, texts);
    },

    /**
     * Stores the language and the version of the text analyzer, and locks the generation until the end of the
     * transaction.
     * @returns false if another process holds the lock or was faster
     */
    async markIndexed(of: OutdatedGeneration, made: { language: string; analyzerVersion: number }): Promise<boolean> {
      const { orgId, documentId, generation, analyzerVersion } = of;
      const locked = await GenerationModel.table(db)
        .where({ orgId, documentId, generation, analyzerVersion })
        .forNoKeyUpdate()
        .skipLocked()
        .first('generation');
      if (locked === undefined) return false;
      await GenerationModel.table(db).where({ orgId, documentId, generation }).update(made);
      await DocumentModel.table(db)
        .where({ orgId, id: documentId, activeGeneration: generation })
        .update({ activeLanguage: made.language });
      return true;
    },

    /** Call it last in a transaction, because it locks the organization's index until the end of the transaction. */
    async replaceWords(of: OutdatedGeneration, chunks: readonly ChunkTermCounts[]): Promise<void> {
      await replaceChunkWords(db, of, chunks);
    },
  };
}
