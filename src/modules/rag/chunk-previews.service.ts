import type { Chunk } from '#src/domain/chunking.ts';
import { type ChunkingWishes, isOverlapBelowTarget, type RagConfig, withChunking } from '#src/domain/rag-config.ts';
import { subjectDistance } from '#src/domain/semantic-chunking.ts';
import type { Actor } from '#src/domain/visibility.ts';
import { appError, fieldError } from '#src/errors.ts';
import type { DocumentsService } from '#src/modules/documents/documents.service.ts';
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
  /** Asked past the organization's cache: a text that somebody plays with is not one of its texts. */
  embedders: Embedders;
  models: Pick<ModelsService, 'refusalOf'>;
  defaultConfig: () => Promise<RagConfig>;
}) {
  const { documents, chunker, embedders, models, defaultConfig } = deps;

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

  async function cut(
    source: { documentName: string; body: string; pageMap: number[] | null; config: RagConfig },
    signal: AbortSignal,
  ): Promise<(ChunkPreview & { contextualText: string })[]> {
    const { config, ...text } = source;
    const toCut = { ...text, chunking: config.chunking };
    const distances = await distancesBetween(await chunker.windows(toCut, signal), config.embedding.model, signal);
    return chunker.chunk(toCut, distances, signal);
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
      const chunks = await cut({ documentName: '', body: content, pageMap: null, config }, signal);
      return chunks.map((chunk) => ({ ...chunk, contextualText: null }));
    },

    /** Of what the document is now. Throws `document_not_found` and `document_not_converted`. */
    async ofDocument(
      actor: Actor,
      documentId: string,
      chunking: ChunkingWishes,
      signal: AbortSignal,
    ): Promise<ChunkPreview[]> {
      const { name, body, pageMap, ragConfig } = await documents.getConverted(actor, documentId);
      const config = withChunking(ragConfig, chunking);
      requireOverlapBelowTarget(config, 'overlap_tokens');
      return cut({ documentName: name, body, pageMap, config }, signal);
    },
  };
}

function requireOverlapBelowTarget({ chunking }: RagConfig, path: string): void {
  if (!isOverlapBelowTarget(chunking)) throw fieldError(path, 'must be less than target_tokens');
}
