import type { Logger } from 'pino';
import { fuse, selectChunks } from '#src/domain/fusion.ts';
import { defaultRagConfig, type RagConfig } from '#src/domain/rag-config.ts';
import { type AnalyzeText, contentStems } from '#src/domain/text-analysis.ts';
import { type Actor, keysOf } from '#src/domain/visibility.ts';
import { AppError } from '#src/errors.ts';
import type { Db } from '#src/ports/database.ts';
import type { Embedder } from '#src/ports/embedder.ts';
import type { ReadableDocuments, VectorHit, VectorStore } from '#src/ports/vector-store.ts';
import type { Retrieval, RetrievalDegradation } from './retrieval.model.ts';
import { createRetrievalRepository } from './retrieval.repository.ts';

/** A person waits for the answer: rather words alone than a slow embedder. */
const queryEmbeddingTimeoutMs = 10_000;

/** A question is in its beginning; a text pasted behind it would drown it, and cost a search for each of its words. */
const queryCharacters = 4_000;

/** How many fused hits are loaded for the final choice: the rest of the list only matters to a reranker. */
const candidates = 50;

export type { RetrievalDegradation, RetrievedChunk } from './retrieval.model.ts';

export type RetrievalService = ReturnType<typeof createRetrievalService>;

export type RetrieveInput = {
  query: string;
  includeDocumentIds?: readonly string[] | undefined;
  excludeDocumentIds?: readonly string[] | undefined;
  settings?: RagConfig['retrieval'] | undefined;
  signal: AbortSignal;
};

export function createRetrievalService(deps: {
  db: Db;
  vectors: Pick<VectorStore, 'search'>;
  embedder: Embedder;
  analyze: AnalyzeText;
  logger: Logger;
}) {
  const { db, vectors, embedder, analyze, logger } = deps;
  const repository = createRetrievalRepository(db);
  const defaults = defaultRagConfig({ embeddingModel: embedder.model, hasReranker: false }).retrieval;

  /** Nearest by meaning. Without the embedder or the store the other leg answers alone. */
  async function searchMeaning(
    readable: ReadableDocuments,
    input: RetrieveInput,
    settings: RagConfig['retrieval'],
  ): Promise<{ hits: VectorHit[]; degraded: RetrievalDegradation | null }> {
    const signal = AbortSignal.any([input.signal, AbortSignal.timeout(queryEmbeddingTimeoutMs)]);
    let vector: Float32Array | undefined;
    try {
      [vector] = await embedder.embed([input.query], { signal });
    } catch (error) {
      return degrade('embedder_unavailable', error, input.signal);
    }
    if (vector === undefined) return { hits: [], degraded: { reason: 'embedder_unavailable' } };
    try {
      const hits = await vectors.search({
        readable,
        model: embedder.model,
        vector,
        limit: settings.vectorLimit,
        minSimilarity: settings.minVectorSimilarity,
      });
      return { hits, degraded: null };
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      return degrade('vector_store_unavailable', error, input.signal);
    }
  }

  function degrade(reason: RetrievalDegradation['reason'], error: unknown, signal: AbortSignal) {
    signal.throwIfAborted();
    logger.warn({ err: error, reason }, 'retrieval goes on with words alone');
    return { hits: [], degraded: { reason } };
  }

  return {
    /**
     * The chunks that answer the query best among the documents that the actor may read: a word leg (BM25) and a
     * vector leg, fused by reciprocal rank. Readability is checked in both legs and again when the texts are loaded.
     */
    async retrieve(actor: Actor, input: RetrieveInput): Promise<Retrieval> {
      const settings = input.settings ?? defaults;
      const readable: ReadableDocuments = {
        orgId: actor.orgId,
        acl: keysOf(actor),
        ...(input.includeDocumentIds && { includeDocumentIds: input.includeDocumentIds }),
        ...(input.excludeDocumentIds && { excludeDocumentIds: input.excludeDocumentIds }),
      };
      const query = input.query.slice(0, queryCharacters);
      const terms = [...new Set(contentStems(analyze(query)))];
      const [words, meaning] = await Promise.all([
        settings.mode === 'vector' ? [] : repository.searchWords({ readable, terms, limit: settings.wordMatchLimit }),
        settings.mode === 'word_match'
          ? { hits: [], degraded: null }
          : searchMeaning(readable, { ...input, query }, settings),
      ]);
      const legs = [words.map((hit) => hit.chunkId), meaning.hits.map((hit) => hit.chunkId)];
      const ranked = fuse(legs, settings.rrfK).slice(0, candidates);
      const loaded = new Map(
        (
          await repository.loadReadable(
            actor,
            ranked.map((hit) => hit.id),
          )
        ).map((chunk) => [chunk.chunkId, chunk]),
      );
      const inOrder = ranked.flatMap((hit) => loaded.get(hit.id) ?? []);
      return { chunks: selectChunks(inOrder), degraded: meaning.degraded };
    },

    /** Those of the chunks that the actor may still read, in a generation that is still the active one. */
    stillReadable(actor: Actor, chunkIds: readonly string[]): Promise<Set<string>> {
      return repository.readableChunkIds(actor, chunkIds);
    },

    /** Those of the documents that the actor may not read, in the given order. */
    async unreadableDocuments(actor: Actor, documentIds: readonly string[]): Promise<string[]> {
      const readable = await repository.readableDocumentIds(actor, documentIds);
      return documentIds.filter((id) => !readable.has(id));
    },
  };
}
