import type { Knex } from 'knex';
import type { Actor, RequestActor } from '#src/domain/access/visibility.ts';
import type { Chunk } from '#src/domain/documents/chunking.ts';
import {
  applyChunkingOptions,
  type ChunkingOptions,
  isChunkOverlapBelowTarget,
  type RagConfig,
} from '#src/domain/documents/rag-config.ts';
import { appError, fieldError, type IfMatchVersions, requireExpectedVersion } from '#src/errors.ts';
import type { DocumentsService } from '#src/modules/documents/documents.service.ts';
import type {
  ChunkContextsService,
  DocumentChunkerService,
  DocumentChunkingOptions,
} from '#src/modules/ingestion/chunking.service.ts';
import type { GenerationsService, IngestionPlan } from '#src/modules/ingestion/generations.service.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { FairWorkQueue } from '#src/ports/load-control.ts';
import type { EmbedderFactory } from '#src/ports/models.ts';

/** Maximum number of sentences that a preview embeds: some seconds on two cores, while the user waits. */
const maxPreviewWindows = 1_000;

/** Maximum number of chunks in a preview (two seconds of work), estimated at four characters per token. */
const maxPreviewChunks = 20_000;
const charactersPerToken = 4;

export type ChunkPreview = Pick<Chunk, 'index' | 'content' | 'tokenCount' | 'chunkKind'> & {
  contextualText: string | null;
};

/** A text to preview. `embeddingModel` is for semantic chunking; undefined for the deployment's default. */
export type ChunkPreviewText = { content: string; chunking: ChunkingOptions; embeddingModel: string | undefined };

export type IngestRequestResult = {
  documentId: string;
  jobId: string;
  queued: boolean;
  chunkingComplete: boolean;
  embeddingComplete: boolean;
};

type IngestRequest = { redo: boolean; reservedId: string };

export type RagService = ReturnType<typeof createRagService>;

export function createRagService(deps: {
  db: Knex;
  documents: Pick<DocumentsService, 'getConverted' | 'getView' | 'lockWritable' | 'setConfig' | 'publishNow'>;
  generations: Pick<GenerationsService, 'findReserved' | 'open' | 'openIfNeeded' | 'carryOut'>;
  models: Pick<ModelsService, 'refusalOf'>;
  documentChunker: Pick<DocumentChunkerService, 'chunk' | 'chunkWithContexts'>;
  chunkContexts: Pick<ChunkContextsService, 'isOn' | 'find'>;
  /** Embeds previewed texts without the embedding cache, which is only for texts of stored documents. */
  embedders: EmbedderFactory;
  defaultConfig: () => Promise<RagConfig>;
  previewQueue: FairWorkQueue;
}) {
  const { db, documents, generations, models, documentChunker, chunkContexts, embedders, defaultConfig, previewQueue } =
    deps;

  const openGeneration = (
    actor: RequestActor,
    documentId: string,
    { redo, reservedId }: IngestRequest,
  ): Promise<IngestionPlan> =>
    db.transaction(async (trx) => {
      const document = await documents.lockWritable(trx, actor, documentId);
      const opened = await generations.findReserved(trx, actor, { documentId, reservedId });
      if (opened !== undefined) return opened;
      if (redo) return generations.open(trx, actor, document, { isRedo: true, reservedId });
      return generations.openIfNeeded(trx, actor, document, { reservedId });
    });

  function chunkingStep(orgId: string, model: string, signal: AbortSignal): DocumentChunkingOptions {
    const embed: DocumentChunkingOptions['embed'] = (windows, windowsTotal) => {
      if (windowsTotal > maxPreviewWindows) {
        throw appError('preview_too_large', {
          detail: `A preview of semantic chunking takes at most ${maxPreviewWindows} sentences; this text has ${windowsTotal}.`,
        });
      }
      return embedders.of(model).embed(windows, { signal });
    };
    return { orgId, embed, signal };
  }

  return {
    async getConfig(actor: Actor, documentId: string): Promise<{ config: RagConfig; version: number }> {
      const { ragConfig: config, version } = await documents.getView(actor, documentId);
      return { config, version };
    },

    /**
     * Changes the retrieval configuration of a document. Searches use the new retrieval settings at once; chunks and
     * vectors stay as they are until the next ingestion. Throws `unknown_model` for an embedding model that is neither
     * offered nor the document's own.
     */
    async setConfig(
      actor: Actor,
      documentId: string,
      config: RagConfig,
      expected: IfMatchVersions,
    ): Promise<RagConfig> {
      const { model } = config.embedding;
      // Checks the embedding model before the document is locked, because the check may call the provider.
      const refusal = await models.refusalOf('embedding', model, 'embedding.model');
      await db.transaction(async (trx) => {
        const document = await documents.lockWritable(trx, actor, documentId);
        requireExpectedVersion(expected, document);
        if (refusal !== null && model !== document.ragConfig.embedding.model) throw refusal;
        await documents.setConfig(trx, actor, document, config);
      });
      await documents.publishNow(documentId);
      return config;
    },

    async ingest(actor: RequestActor, documentId: string, request: IngestRequest): Promise<IngestRequestResult> {
      const plan = await openGeneration(actor, documentId, request);
      // Reads the document's state before the job starts, so that the response reports a new ingestion as incomplete
      // even if it ends at once.
      const { chunkingComplete, embeddingComplete } = await documents.getView(actor, documentId);
      await generations.carryOut(plan);
      return { documentId, jobId: plan.jobId, queued: plan.isQueued, chunkingComplete, embeddingComplete };
    },

    /**
     * Chunks a text without storing it. Contextual texts are null, because they begin with the name of a document, and
     * the text has none.
     */
    async previewText(
      { orgId }: Actor,
      { content, chunking, embeddingModel }: ChunkPreviewText,
      signal: AbortSignal,
    ): Promise<ChunkPreview[]> {
      const config = applyChunkingOptions(await defaultConfig(), chunking);
      requireOverlapBelowTarget(config, 'config.chunking.overlap_tokens');
      if (embeddingModel !== undefined) {
        const refusal = await models.refusalOf('embedding', embeddingModel, 'config.embedding.model');
        if (refusal !== null) throw refusal;
        config.embedding = { model: embeddingModel };
      }
      requireFewChunks(content, config);
      const source = { documentName: '', body: content, pageMap: null, chunking: config.chunking };
      const chunks = await previewQueue(orgId, () =>
        documentChunker.chunk(source, chunkingStep(orgId, config.embedding.model, signal)),
      );
      return chunks.map((chunk) => ({ ...chunk, contextualText: null }));
    },

    /** Chunks a document's text without storing it or calling a chat model: missing chunk contexts are null. */
    async previewDocument(
      actor: Actor,
      documentId: string,
      chunking: ChunkingOptions,
      signal: AbortSignal,
    ): Promise<ChunkPreview[]> {
      const document = await documents.getConverted(actor, documentId);
      const config = applyChunkingOptions(document.ragConfig, chunking);
      requireOverlapBelowTarget(config, 'overlap_tokens');
      requireFewChunks(document.body, config);
      const source = { ...document, documentName: document.name, chunking: config.chunking };
      const step = chunkingStep(actor.orgId, config.embedding.model, signal);
      const chunks = await previewQueue(actor.orgId, () => documentChunker.chunkWithContexts(source, step));
      if (!chunkContexts.isOn) return chunks;
      const found = await chunkContexts.find(document, chunks);
      return chunks.map((chunk, index) => ({ ...chunk, ...(found[index] === null && { contextualText: null }) }));
    },
  };
}

function requireOverlapBelowTarget({ chunking }: RagConfig, path: string): void {
  if (!isChunkOverlapBelowTarget(chunking)) throw fieldError(path, 'must be less than target_tokens');
}

function requireFewChunks(body: string, { chunking: { targetTokens, overlapTokens } }: RagConfig): void {
  const chunks = Math.ceil(body.length / charactersPerToken / (targetTokens - overlapTokens));
  if (chunks <= maxPreviewChunks) return;
  throw appError('preview_too_large', {
    detail: `This would give about ${chunks} chunks; a preview shows at most ${maxPreviewChunks}. Use a larger target_tokens.`,
  });
}
