import type { Actor } from '#src/domain/access/visibility.ts';
import type { Chunk } from '#src/domain/documents/chunking.ts';
import {
  type ChunkingOptions,
  isOverlapBelowTarget,
  type RagConfig,
  withChunking,
} from '#src/domain/documents/rag-config.ts';
import { appError, fieldError } from '#src/errors.ts';
import type { DocumentsService } from '#src/modules/documents/documents.service.ts';
import type {
  ChunkContextsService,
  ChunkingStep,
  DocumentChunkerService,
} from '#src/modules/ingestion/chunking.service.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { FairQueue } from '#src/ports/load-control.ts';
import type { Embedders } from '#src/ports/models.ts';

/** Seconds of an embedder on two cores: somebody waits for the answer. */
export const maxPreviewWindows = 1_000;

/** A second or two of cutting. By a low estimate of their number, four characters to a token: see `requireFewChunks`. */
const maxPreviewChunks = 20_000;
const charactersPerToken = 4;

/** `contextualText` is null where there is none, or none yet. */
export type ChunkPreview = Pick<Chunk, 'index' | 'content' | 'tokenCount' | 'chunkKind'> & {
  contextualText: string | null;
};

/** A text that is no document yet. `embeddingModel` is the one that a cut by meaning asks; the deployment's when left out. */
export type TextToPreview = { content: string; chunking: ChunkingOptions; embeddingModel: string | undefined };

export type ChunkPreviewsService = ReturnType<typeof createChunkPreviewsService>;

/** Cuts as an ingestion would, and keeps nothing of it. */
export function createChunkPreviewsService(deps: {
  documents: Pick<DocumentsService, 'getConverted'>;
  documentChunker: Pick<DocumentChunkerService, 'chunk' | 'chunkWithContexts'>;
  chunkContexts: Pick<ChunkContextsService, 'isOn' | 'find'>;
  /** Asked past the organization's cache: a text that somebody plays with is not one of its texts. */
  embedders: Embedders;
  models: Pick<ModelsService, 'refusalOf'>;
  defaultConfig: () => Promise<RagConfig>;
  /** A preview of a long text takes a second of a core. */
  inTurn: FairQueue;
}) {
  const { documents, documentChunker, chunkContexts, embedders, models, defaultConfig, inTurn } = deps;

  /** Throws `preview_too_large`. */
  function stepOf(orgId: string, model: string, signal: AbortSignal): ChunkingStep {
    const embed: ChunkingStep['embed'] = (windows, windowsTotal) => {
      if (windowsTotal > maxPreviewWindows) {
        throw appError('preview_too_large', {
          detail: `A cut by meaning is previewed of at most ${maxPreviewWindows} sentences, and these are ${windowsTotal}.`,
        });
      }
      return embedders.of(model).embed(windows, { signal });
    };
    return { orgId, embed, signal };
  }

  return {
    /** Its chunks have no contextual text: that begins with the name of their document. Throws `unknown_model`. */
    async ofText(
      { orgId }: Actor,
      { content, chunking, embeddingModel }: TextToPreview,
      signal: AbortSignal,
    ): Promise<ChunkPreview[]> {
      const config = withChunking(await defaultConfig(), chunking);
      requireOverlapBelowTarget(config, 'config.chunking.overlap_tokens');
      if (embeddingModel !== undefined) {
        const refusal = await models.refusalOf('embedding', embeddingModel, 'config.embedding.model');
        if (refusal !== null) throw refusal;
        config.embedding = { model: embeddingModel };
      }
      requireFewChunks(content, config);
      const source = { documentName: '', body: content, pageMap: null, chunking: config.chunking };
      const chunks = await inTurn(orgId, () =>
        documentChunker.chunk(source, stepOf(orgId, config.embedding.model, signal)),
      );
      return chunks.map((chunk) => ({ ...chunk, contextualText: null }));
    },

    /**
     * Of what the document is now. No model is asked where a chunk stands: one that it was not asked about before has no
     * contextual text. Throws `document_not_found` and `document_not_converted`.
     */
    async ofDocument(
      actor: Actor,
      documentId: string,
      chunking: ChunkingOptions,
      signal: AbortSignal,
    ): Promise<ChunkPreview[]> {
      const document = await documents.getConverted(actor, documentId);
      const config = withChunking(document.ragConfig, chunking);
      requireOverlapBelowTarget(config, 'overlap_tokens');
      requireFewChunks(document.body, config);
      const source = { ...document, documentName: document.name, chunking: config.chunking };
      const step = stepOf(actor.orgId, config.embedding.model, signal);
      const chunks = await inTurn(actor.orgId, () => documentChunker.chunkWithContexts(source, step));
      if (!chunkContexts.isOn) return chunks;
      const found = await chunkContexts.find(document, chunks);
      return chunks.map((chunk, index) => ({ ...chunk, ...(found[index] === null && { contextualText: null }) }));
    },
  };
}

function requireOverlapBelowTarget({ chunking }: RagConfig, path: string): void {
  if (!isOverlapBelowTarget(chunking)) throw fieldError(path, 'must be less than target_tokens');
}

function requireFewChunks(body: string, { chunking: { targetTokens, overlapTokens } }: RagConfig): void {
  const chunks = Math.ceil(body.length / charactersPerToken / (targetTokens - overlapTokens));
  if (chunks <= maxPreviewChunks) return;
  throw appError('preview_too_large', {
    detail: `About ${chunks} chunks would come of this, and a preview shows at most ${maxPreviewChunks}: take a larger target_tokens.`,
  });
}
