import type { ChunkSource, IndexedChunk } from '#src/domain/documents/chunk-document.ts';
import { subjectDistance } from '#src/domain/documents/chunking.ts';
import type { EmbeddingsService } from '#src/modules/embeddings/embeddings.service.ts';
import type { Chunker } from '#src/ports/documents.ts';
import type { ChunkContextsService, ConvertedBody } from './chunk-contexts.service.ts';

/** Windows that are embedded between two progress reports. */
const BATCH_SIZE = 256;
/** About half a minute of work; then other documents get their turn. Each slice computes all windows again. */
const SLICE_SIZE = 8 * BATCH_SIZE;

export type ChunkingSource = Pick<ChunkSource, 'documentName' | 'body' | 'pageMap' | 'chunking'>;

export type ChunkingStep = {
  orgId: string;
  /** Embeds the next windows of the text, for semantic chunking. Called in the order of the windows. */
  embed: (windows: readonly string[], windowsTotal: number) => Promise<readonly Float32Array[]>;
  signal: AbortSignal;
  report?: (details: unknown) => void;
};

export type DocumentChunkerService = ReturnType<typeof createDocumentChunkerService>;

/** Chunks documents. The same source gives the same chunks. */
export function createDocumentChunkerService(deps: {
  chunker: Chunker;
  embeddings: Pick<EmbeddingsService, 'embed' | 'listMissing'>;
  chunkContexts: Pick<ChunkContextsService, 'find'>;
}) {
  const { chunker, embeddings, chunkContexts } = deps;

  return {
    /** The contextual prefix of these chunks is document name, headings and page. */
    async chunk(source: ChunkingSource, step: ChunkingStep): Promise<IndexedChunk[]> {
      return chunker.chunk(source, await measureDistances(source, step), step);
    },

    /** The contextual prefix also holds the contexts that the model has written so far. */
    async chunkWithContexts(source: ChunkingSource & ConvertedBody, step: ChunkingStep): Promise<IndexedChunk[]> {
      const distances = await measureDistances(source, step);
      const chunks = await chunker.chunk(source, distances, step);
      const contexts = (await chunkContexts.find(source, chunks)).map((context) => context ?? '');
      if (contexts.every((context) => context === '')) return chunks;
      return chunker.chunk({ ...source, contexts }, distances, step);
    },

    /**
     * Embeds a slice of the windows that are not in the organization's cache yet, so that no activity takes as long as its
     * document. Each call of the model is cached when it returns. Throws like `Embedder`.
     * @param step.report is called with the numbers of embedded windows and of all windows
     * @returns the number of all windows, and of distinct windows left to embed
     */
    async embedWindows(
      source: Pick<ChunkSource, 'body' | 'chunking'>,
      by: { orgId: string; model: string },
      { signal, report }: { signal: AbortSignal; report: (done: number, total: number) => Promise<void> },
    ): Promise<{ total: number; left: number }> {
      const windows = await chunker.windows(source, { orgId: by.orgId, signal });
      const missing = await embeddings.listMissing(by, windows);
      const total = windows.length;
      let left = missing.length;
      for (const batch of batches(missing.slice(0, SLICE_SIZE))) {
        const before = total - left;
        await embeddings.embed(by, batch, { signal, onProgress: (count) => report(before + count, total) });
        left -= batch.length;
        await report(total - left, total);
      }
      return { total, left };
    },
  };

  /** From each window to the next; empty unless chunking is semantic. */
  async function measureDistances(source: ChunkingSource, step: ChunkingStep): Promise<number[]> {
    const { orgId, embed, signal, report } = step;
    const windows = await chunker.windows(source, { orgId, signal });
    const distances: number[] = [];
    let windowsEmbedded = 0;
    let previous: Float32Array | undefined;
    for (const batch of batches(windows)) {
      for (const vector of await embed(batch, windows.length)) {
        if (previous !== undefined) distances.push(subjectDistance(previous, vector));
        previous = vector;
      }
      windowsEmbedded += batch.length;
      report?.({ windowsEmbedded, windowsTotal: windows.length });
    }
    return distances;
  }
}

function* batches(texts: readonly string[]): Generator<readonly string[]> {
  for (let start = 0; start < texts.length; start += BATCH_SIZE) yield texts.slice(start, start + BATCH_SIZE);
}
