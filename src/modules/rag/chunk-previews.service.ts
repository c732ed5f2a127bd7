import type { ChunkSource } from '#src/domain/chunk-document.ts';
import type { Chunk } from '#src/domain/chunking.ts';
import { type ChunkingWishes, isOverlapBelowTarget, type RagConfig, withChunking } from '#src/domain/rag-config.ts';
import { subjectDistance } from '#src/domain/semantic-chunking.ts';
import type { Actor } from '#src/domain/visibility.ts';
import { appError, fieldError } from '#src/errors.ts';
import type { DocumentsService } from '#src/modules/documents/documents.service.ts';
import type { ChunkContextsService } from '#src/modules/ingestion/chunk-contexts.service.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { Chunker } from '#src/ports/chunker.ts';
import type { Embedders } from '#src/ports/embedder.ts';

/** Seconds of an embedder on two cores: somebody waits for the answer. */
export const maxPreviewWindows = 1_000;

/** `contextualText` is null where there is none, or none yet. */
export type ChunkPreview = Pick<Chunk, 'index' | 'content' | 'tokenCount' | 'chunkKind'> & {
  contextualText: string | null;
};

/** A text that is no document yet. `embeddingModel` is the one that a cut by meaning asks; the deployment's when left out. */
export type TextToPreview = { content: string; chunking: ChunkingWishes; embeddingModel: string | undefined };

export type ChunkPreviewsService = ReturnType<typeof createChunkPreviewsService>;

/** Cuts as an ingestion would, and keeps nothing of it. */
export function createChunkPreviewsService(deps: {
  documents: Pick<DocumentsService, 'getConverted'>;
  chunker: Chunker;
  contexts: Pick<ChunkContextsService, 'isOn' | 'find'>;
  /** Asked past the organization's cache: a text that somebody plays with is not one of its texts. */
  embedders: Embedders;
  models: Pick<ModelsService, 'refusalOf'>;
  defaultConfig: () => Promise<RagConfig>;
}) {
  const { documents, chunker, contexts, embedders, models, defaultConfig } = deps;

  /** Throws `preview_too_large`. */
  async function distancesBetween(windows: readonly string[], model: string, signal: AbortSignal): Promise<number[]> {
    if (windows.length > maxPreviewWindows) {
      throw appError('preview_too_large', {
        detail: `A cut by meaning is previewed of at most ${maxPreviewWindows} sentences, and these are ${windows.length}.`,
      });
    }
    if (windows.length === 0) return [];
    const vectors = await embedders.of(model).embed(windows, { signal });
    return vectors.flatMap((vector, index) => {
      const next = vectors[index + 1];
      return next === undefined ? [] : [subjectDistance(vector, next)];
    });
  }

  async function distancesOf(source: ChunkSource, model: string, signal: AbortSignal): Promise<number[]> {
    return distancesBetween(await chunker.windows(source, signal), model, signal);
  }

  return {
    /** Its chunks have no contextual text: that begins with the name of their document. Throws `unknown_model`. */
    async ofText({ content, chunking, embeddingModel }: TextToPreview, signal: AbortSignal): Promise<ChunkPreview[]> {
      const config = withChunking(await defaultConfig(), chunking);
      requireOverlapBelowTarget(config, 'config.chunking.overlap_tokens');
      if (embeddingModel !== undefined) {
        const refusal = await models.refusalOf('embedding', embeddingModel, 'config.embedding.model');
        if (refusal !== null) throw refusal;
        config.embedding = { model: embeddingModel };
      }
      const source = { documentName: '', body: content, pageMap: null, chunking: config.chunking };
      const distances = await distancesOf(source, config.embedding.model, signal);
      const chunks = await chunker.chunk(source, distances, signal);
      return chunks.map((chunk) => ({ ...chunk, contextualText: null }));
    },

    /**
     * Of what the document is now. No model is asked where a chunk stands: one that it was not asked about before has no
     * contextual text. Throws `document_not_found` and `document_not_converted`.
     */
    async ofDocument(
      actor: Actor,
      documentId: string,
      chunking: ChunkingWishes,
      signal: AbortSignal,
    ): Promise<ChunkPreview[]> {
      const document = await documents.getConverted(actor, documentId);
      const config = withChunking(document.ragConfig, chunking);
      requireOverlapBelowTarget(config, 'overlap_tokens');
      const { name: documentName, body, pageMap } = document;
      const source = { documentName, body, pageMap, chunking: config.chunking };
      const distances = await distancesOf(source, config.embedding.model, signal);
      const chunks = await chunker.chunk(source, distances, signal);
      if (!contexts.isOn) return chunks;
      const found = await contexts.find(document, chunks);
      const situations = found.map((situation) => situation ?? '');
      const situated = await chunker.chunk({ ...source, situations }, distances, signal);
      return situated.map((chunk, index) => ({ ...chunk, ...(found[index] === null && { contextualText: null }) }));
    },
  };
}

function requireOverlapBelowTarget({ chunking }: RagConfig, path: string): void {
  if (!isOverlapBelowTarget(chunking)) throw fieldError(path, 'must be less than target_tokens');
}
