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
 * Number of texts per batch: enough for several calls of the embedding model, each with texts of similar length. A run
 * that was killed finds the vectors in the embedding cache when it is repeated.
 */
const BATCH_SIZE = 256;
/** Number of chunks that one activity embeds, in about half a minute, so that other documents can run afterwards. */
const SLICE_SIZE = 4 * BATCH_SIZE;

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
      let chunksEmbedded = embeddedBefore;
      const showDone = async (count: number) => {
        // Reports no count below the last one: batches are stored after they are embedded, so the stored count lags
        // behind.
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
        chunksEmbedded = await store(of, model, batch);
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
        // Waits for the last write, even after an error: no write may continue after the activity has ended.
        await writing.catch(() => undefined);
      }
      return { chunksEmbedded, chunksLeft: (chunksTotal ?? 0) - chunksEmbedded };
    },

    /**
     * Throws `vectors_missing` unless every chunk is marked as embedded and the vector store has as many points. Before
     * that, unmarks the chunks without a point, so that `embedSlice` embeds them again.
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
   * Writes points to the vector store, then marks their chunks as embedded. This order guarantees that a marked chunk
   * has its point.
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
      // Another worker may have deleted the superseded generation's points before this call wrote further ones; deletes
      // these too.
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
