import type { Knex } from 'knex';
import type { Actor, RequestActor } from '#src/domain/access/visibility.ts';
import type { RagConfig } from '#src/domain/documents/rag-config.ts';
import { type ExpectedVersions, requireVersion } from '#src/errors.ts';
import type { DocumentsService } from '#src/modules/documents/documents.service.ts';
import type { GenerationsService, IngestionPlan } from '#src/modules/ingestion/generations.service.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';

/** The run that the document's ids now name, and how far it is. */
export type IngestAnswer = {
  documentId: string;
  jobId: string;
  queued: boolean;
  chunkingComplete: boolean;
  embeddingComplete: boolean;
};

/** `reservedId` names the request: a repeated one finds the generation that it has opened. */
type IngestRequest = { redo: boolean; reservedId: string };

export type RagService = ReturnType<typeof createRagService>;

/** How documents are cut and found, and when that is done. */
export function createRagService(deps: {
  db: Knex;
  documents: Pick<DocumentsService, 'getView' | 'lockWritable' | 'setConfig' | 'publishNow'>;
  generations: Pick<GenerationsService, 'findReserved' | 'open' | 'openIfNeeded' | 'carryOut'>;
  models: Pick<ModelsService, 'refusalOf'>;
}) {
  const { db, documents, generations, models } = deps;

  const plan = (actor: RequestActor, documentId: string, { redo, reservedId }: IngestRequest): Promise<IngestionPlan> =>
    db.transaction(async (trx) => {
      const document = await documents.lockWritable(trx, actor, documentId);
      const opened = await generations.findReserved(trx, actor, { documentId, reservedId });
      if (opened !== undefined) return opened;
      if (redo) return generations.open(trx, actor, document, { isRedo: true, reservedId });
      return generations.openIfNeeded(trx, actor, document, { reservedId });
    });

  return {
    /** With the version of its document. */
    async getConfig(actor: Actor, documentId: string): Promise<{ config: RagConfig; version: number }> {
      const { ragConfig: config, version } = await documents.getView(actor, documentId);
      return { config, version };
    },

    /**
     * Readers find the document by its new settings at once; chunks and vectors stay as they are, and stale, until the
     * next ingestion. Throws `unknown_model` for an embedding model that is neither offered nor the document's own, and
     * `precondition_failed`.
     */
    async setConfig(
      actor: Actor,
      documentId: string,
      config: RagConfig,
      expected: ExpectedVersions,
    ): Promise<RagConfig> {
      const { model } = config.embedding;
      // Before the row is held: the provider may have to be asked.
      const refusal = await models.refusalOf('embedding', model, 'embedding.model');
      await db.transaction(async (trx) => {
        const document = await documents.lockWritable(trx, actor, documentId);
        requireVersion(expected, document);
        if (refusal !== null && model !== document.ragConfig.embedding.model) throw refusal;
        await documents.setConfig(trx, actor, document, config);
      });
      await documents.publishNow(documentId);
      return config;
    },

    /** Ingests a document where that is needed, or again from its original. */
    async ingest(actor: RequestActor, documentId: string, request: IngestRequest): Promise<IngestAnswer> {
      const decided = await plan(actor, documentId, request);
      // Read before its job starts: what is made anew is always told to be incomplete.
      const { chunkingComplete, embeddingComplete } = await documents.getView(actor, documentId);
      await generations.carryOut(decided);
      return { documentId, jobId: decided.jobId, queued: decided.isQueued, chunkingComplete, embeddingComplete };
    },
  };
}
