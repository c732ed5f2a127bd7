import type { RagConfig } from '#src/domain/rag-config.ts';
import type { Actor, RequestActor } from '#src/domain/visibility.ts';
import { appError } from '#src/errors.ts';
import type { DocumentsService } from '#src/modules/documents/documents.service.ts';
import type { EmbeddingsService } from '#src/modules/embeddings/embeddings.service.ts';
import type { GenerationsService, IngestionPlan } from '#src/modules/ingestion/generations.service.ts';
import type { Db } from '#src/ports/database.ts';

/** The run that the document's ids now name, and how far it is. */
export type IngestAnswer = {
  documentId: string;
  jobId: string;
  queued: boolean;
  chunkingComplete: boolean;
  embeddingComplete: boolean;
};

export type RagService = ReturnType<typeof createRagService>;

/** How documents are cut and found, and when that is done. */
export function createRagService(deps: {
  db: Db;
  documents: Pick<DocumentsService, 'getView' | 'lockWritable' | 'setConfig' | 'publishNow'>;
  generations: Pick<GenerationsService, 'open' | 'openIfNeeded' | 'carryOut'>;
  embeddings: Pick<EmbeddingsService, 'model'>;
}) {
  const { db, documents, generations, embeddings } = deps;

  const plan = (actor: RequestActor, documentId: string, { redo }: { redo: boolean }): Promise<IngestionPlan> =>
    db.transaction(async (trx) => {
      const document = await documents.lockWritable(trx, actor, documentId);
      if (redo) return generations.open(trx, actor, document, { isRedo: true });
      return generations.openIfNeeded(trx, actor, document);
    });

  return {
    async getConfig(actor: Actor, documentId: string): Promise<RagConfig> {
      return (await documents.getView(actor, documentId)).ragConfig;
    },

    /**
     * Chunks and vectors stay as they are, and stale, until the next ingestion. Throws `unknown_model` for an embedding
     * model that is neither the deployment's nor the document's.
     */
    async setConfig(actor: Actor, documentId: string, config: RagConfig): Promise<RagConfig> {
      await db.transaction(async (trx) => {
        const document = await documents.lockWritable(trx, actor, documentId);
        const { model } = config.embedding;
        if (model !== embeddings.model && model !== document.ragConfig.embedding.model) {
          const message = `This deployment embeds with ${embeddings.model}.`;
          throw appError('unknown_model', {
            detail: message,
            errors: [{ path: 'embedding.model', message, code: 'unknown_model' }],
          });
        }
        await documents.setConfig(trx, actor, document, config);
      });
      await documents.publishNow(documentId);
      return config;
    },

    /** Ingests a document where that is needed, or again from its original. */
    async ingest(actor: RequestActor, documentId: string, wish: { redo: boolean }): Promise<IngestAnswer> {
      const decided = await plan(actor, documentId, wish);
      await generations.carryOut(decided);
      const { chunkingComplete, embeddingComplete } = await documents.getView(actor, documentId);
      return { documentId, jobId: decided.jobId, queued: decided.isQueued, chunkingComplete, embeddingComplete };
    },
  };
}
