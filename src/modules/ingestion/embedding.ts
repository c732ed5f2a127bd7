import type { Knex } from 'knex';
import type { EmbedResult, IngestDocumentInput } from '#src/contracts/ingestion.ts';
import { indexedTextOfChunk } from '#src/domain/documents/chunk-document.ts';
import { appError } from '#src/errors.ts';
import type { EmbeddingsService } from '#src/modules/embeddings/embeddings.service.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import { createChunksRepository } from './chunks.repository.ts';
import { createGenerationsRepository } from './generations.repository.ts';
import type { ChunkText, IngestionTarget } from './ingestion.model.ts';

/**
 * Enough texts for several calls of the embedding model, which sorts them by length. The vectors of a killed run are in
 * the embedding cache.
 */
const BATCH_SIZE = 256;
/** Chunks per activity: about half a minute of embedding, so that other documents can run in between. */
const SLICE_SIZE = 4 * BATCH_SIZE;

/** Embeds the chunks of a generation (stage `embed`), and checks the vectors before activation. */
export function createChunkEmbedding(deps: {
  db: Knex;
  embeddings: Pick<EmbeddingsService, 'embed'>;
  vectors: Pick<VectorStore, 'upsert' | 'fetch' | 'countGenerations' | 'deleteGenerations'>;
}) {
  const { db, embeddings, vectors } = deps;
  const generations = createGenerationsRepository(db);
  const chunks = createChunksRepository(db);

  return {
    async nextSlice(of: IngestDocumentInput): Promise<{ unembedded: string[]; embeddedBefore: number }> {
      const [unembedded, embeddedBefore] = await Promise.all([
        chunks.listUnembedded(of, SLICE_SIZE),
        chunks.countEmbedded(of),
      ]);
      return { unembedded, embeddedBefore };
    },

    /**
     * Stores each batch of vectors while the next one is embedded.
     * @param step.onProgress is called with increasing numbers of embedded chunks
     */
    async embedSlice(
      of: IngestDocumentInput,
      { chunksTotal, ragConfig }: IngestionTarget,
      { unembedded, embeddedBefore }: { unembedded: readonly string[]; embeddedBefore: number },
      step: {
        signal: AbortSignal;
        report: (details: unknown) => void;
        onProgress: (done: number) => Promise<void>;
      },
    ): Promise<EmbedResult> {
      const { model } = ragConfig.embedding;
      let done = embeddedBefore;
      const showDone = async (count: number) => {
        // Batches are stored after they are embedded, so the stored count lags behind the reported one.
        if (count <= done) return;
        done = count;
        await step.onProgress(done);
      };

      const embedBatch = async (start: number): Promise<EmbeddedBatch> => {
        const texts = await chunks.readTexts(of.orgId, unembedded.slice(start, start + BATCH_SIZE));
        const embedded = await embeddings.embed({ orgId: of.orgId, model }, texts.map(indexedTextOfChunk), {
          signal: step.signal,
          onProgress: (count) => showDone(embeddedBefore + start + count),
        });
        return { texts, embedded };
      };
      const storeBatch = async (batch: EmbeddedBatch) => {
        step.signal.throwIfAborted();
        const chunksEmbedded = await store(of, model, batch);
        await showDone(chunksEmbedded);
        step.report({ chunksEmbedded });
      };

      let writing: Promise<void> = Promise.resolve();
      try {
        for (let start = 0; start < unembedded.length; start += BATCH_SIZE) {
          const [batch] = await Promise.all([embedBatch(start), writing]);
          writing = storeBatch(batch);
        }
        await writing;
      } finally {
        // No write may continue after the activity has ended, not even after an error.
        await writing.catch(() => undefined);
      }
      const chunksEmbedded = await chunks.countEmbedded(of);
      return { chunksEmbedded, chunksLeft: (chunksTotal ?? 0) - chunksEmbedded };
    },

    /**
     * Throws `vectors_missing` unless every chunk is marked as embedded and the vector store has as many points. Then
     * the chunks without a point are unmarked, so that `embedSlice` embeds them again.
     */
    async requireComplete(of: IngestDocumentInput, { chunksTotal, ragConfig }: IngestionTarget): Promise<void> {
      const [embedded, [stored = 0]] = await Promise.all([chunks.countEmbedded(of), vectors.countGenerations([of])]);
      if (embedded === chunksTotal && stored === chunksTotal) return;
      await unmarkLostPoints(of, ragConfig.embedding.model);
      const detail = `${embedded} of ${chunksTotal} chunks are embedded and ${stored} are in the vector store.`;
      throw appError('vectors_missing', { detail });
    },
  };

  /**
   * Writes points to the vector store before it marks their chunks: a mark guarantees that the point exists, and a
   * point without a mark is written again.
   * @returns how many chunks of the generation are embedded now
   */
  async function store(of: IngestDocumentInput, model: string, { texts, embedded }: EmbeddedBatch): Promise<number> {
    const { orgId, documentId, generation } = of;
    const points = texts.flatMap(({ id }, index) => {
      const vector = embedded[index];
      return vector === undefined ? [] : [{ id, documentId, generation, vector }];
    });
    await vectors.upsert({ orgId, model, points });
    const ids = texts.map((text) => text.id);
    const chunksEmbedded = await chunks.markEmbedded(of, ids, model);
    if (chunksEmbedded === undefined) {
      // The generation's points may have been deleted before these were written.
      const isActive = (await generations.findDocumentState(of))?.activeGeneration === generation;
      if (!isActive) await vectors.deleteGenerations({ orgId, documentId, from: generation, before: generation + 1 });
      throw appError('superseded');
    }
    return chunksEmbedded;
  }

  async function unmarkLostPoints(of: IngestDocumentInput, model: string): Promise<void> {
    const marked = await chunks.listEmbedded(of);
    for (let start = 0; start < marked.length; start += BATCH_SIZE) {
      const chunkIds = marked.slice(start, start + BATCH_SIZE);
      const stored = await vectors.fetch({ orgId: of.orgId, model, chunkIds });
      await chunks.unmarkEmbedded(
        of,
        chunkIds.filter((id) => !stored.has(id)),
      );
    }
  }
}

type EmbeddedBatch = { texts: ChunkText[]; embedded: Float32Array[] };
