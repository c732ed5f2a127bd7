import type { ChunkSource } from '#src/domain/documents/chunk-document.ts';
import type { EmbeddingsService } from '#src/modules/embeddings/embeddings.service.ts';
import type { Chunker } from '#src/ports/documents.ts';

/** Windows that are embedded before the engine hears how far the step is. */
const BATCH_SIZE = 256;
/** About half a minute of work, after which it is the turn of others. Each slice cuts the whole text into windows again. */
const SLICE_SIZE = 8 * BATCH_SIZE;

export type WindowEmbedder = ReturnType<typeof createWindowEmbedder>;

/** Embeds what cuts by meaning compare before they are made, so that none of them takes as long as its document is. */
export function createWindowEmbedder(deps: {
  chunker: Pick<Chunker, 'windows'>;
  embeddings: Pick<EmbeddingsService, 'embed' | 'listMissing'>;
}) {
  const { chunker, embeddings } = deps;

  return {
    /**
     * A slice of those windows that the organization's cache does not have, which keeps each call of the model as soon
     * as it is answered. Errors as in `Embedder`.
     * @param step.report hears how many of how many are there
     * @returns how many there are, and how many different ones are left
     */
    async embedSlice(
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
}

function* batches(texts: readonly string[]): Generator<readonly string[]> {
  for (let start = 0; start < texts.length; start += BATCH_SIZE) yield texts.slice(start, start + BATCH_SIZE);
}
