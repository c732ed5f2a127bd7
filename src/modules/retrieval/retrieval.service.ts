import type { Logger } from 'pino';
import { contextLimits, fuse, selectChunks } from '#src/domain/fusion.ts';
import { defaultRagConfig, type RagConfig } from '#src/domain/rag-config.ts';
import { keepTopK, planReranking, type RerankingWish } from '#src/domain/reranking.ts';
import { type AnalyzeText, contentStems } from '#src/domain/text-analysis.ts';
import { type Actor, keysOf } from '#src/domain/visibility.ts';
import { AppError } from '#src/errors.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { Db } from '#src/ports/database.ts';
import type { Embedder } from '#src/ports/embedder.ts';
import type { ReadableDocuments, VectorHit, VectorStore } from '#src/ports/vector-store.ts';
import type { PassageRanker } from './passage-ranker.ts';
import type { Candidate, Retrieval, RetrievalDegradation } from './retrieval.model.ts';
import { createRetrievalRepository } from './retrieval.repository.ts';
import { createWordSearchRepository } from './word-search.repository.ts';

/** A person waits for the answer: rather words alone than a slow embedder. */
const queryEmbeddingTimeoutMs = 10_000;

/** A question is in its beginning; a text pasted behind it would drown it, and cost a search for each of its words. */
const queryCharacters = 4_000;

/** How many fused hits are loaded, for a reranker and for the final choice. */
const candidateCount = 50;

export type { RetrievalDegradation, RetrievedChunk } from './retrieval.model.ts';

export type RetrievalService = ReturnType<typeof createRetrievalService>;

export type RetrieveInput = {
  query: string;
  includeDocumentIds?: readonly string[] | undefined;
  excludeDocumentIds?: readonly string[] | undefined;
  settings?: RagConfig['retrieval'] | undefined;
  reranking: RerankingWish;
  /** Of the passages together; null is the usual budget. */
  contextTokens: number | null;
  signal: AbortSignal;
};

export function createRetrievalService(deps: {
  db: Db;
  vectors: Pick<VectorStore, 'search'>;
  embedder: Embedder;
  analyze: AnalyzeText;
  rank: PassageRanker;
  models: Pick<ModelsService, 'reranker' | 'queryPrefix'>;
  logger: Logger;
}) {
  const { db, vectors, embedder, analyze, rank, models, logger } = deps;
  const repository = createRetrievalRepository(db);
  const words = createWordSearchRepository(db);
  const defaults = defaultRagConfig({ embeddingModel: embedder.model, hasReranker: false }).retrieval;

  /** Nearest by meaning. Without the embedder or the store the other leg answers alone. */
  async function searchMeaning(
    readable: ReadableDocuments,
    input: RetrieveInput,
    settings: RagConfig['retrieval'],
  ): Promise<{ hits: VectorHit[]; degradations: RetrievalDegradation[] }> {
    const signal = AbortSignal.any([input.signal, AbortSignal.timeout(queryEmbeddingTimeoutMs)]);
    let vector: Float32Array | undefined;
    try {
      [vector] = await embedder.embed([`${await models.queryPrefix(embedder.model)}${input.query}`], { signal });
    } catch (error) {
      return { hits: [], degradations: [degradation('embedder_unavailable', error, input.signal)] };
    }
    if (vector === undefined) return { hits: [], degradations: [{ reason: 'embedder_unavailable' }] };
    try {
      const hits = await vectors.search({
        readable,
        model: embedder.model,
        vector,
        limit: settings.vectorLimit,
        minSimilarity: settings.minVectorSimilarity,
      });
      return { hits, degradations: [] };
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      return { hits: [], degradations: [degradation('vector_store_unavailable', error, input.signal)] };
    }
  }

  function degradation(
    reason: RetrievalDegradation['reason'],
    error: unknown,
    signal: AbortSignal,
  ): RetrievalDegradation {
    signal.throwIfAborted();
    logger.warn({ err: error, reason }, 'retrieval goes on with less');
    return { reason };
  }

  /** Where the chat or a document wants it; the order stays as it is when it fails. */
  async function rerank(
    candidates: Candidate[],
    { query, reranking: wish, signal }: RetrieveInput,
  ): Promise<{ ranked: Candidate[]; degradations: RetrievalDegradation[] }> {
    const unchanged = { ranked: candidates, degradations: [] };
    const byDocument = new Map(candidates.map(({ documentId, reranking }) => [documentId, reranking]));
    const type = planReranking([...byDocument.values()], wish);
    if (type === null || candidates.length === 0) return unchanged;
    // A deployment that lost its reranker has documents that still name one. A chat that asks for it is told.
    if (type === 'cross_encoder' && wish.isEnabled !== true && (await models.reranker('cross_encoder')) === null)
      return unchanged;
    try {
      return { ranked: keepTopK(await rank(type, { query, passages: candidates, signal }), wish), degradations: [] };
    } catch (error) {
      return { ...unchanged, degradations: [degradation('reranker_unavailable', error, signal)] };
    }
  }

  /** Both legs, and the texts of what they found, best first. */
  async function search(
    actor: Actor,
    input: RetrieveInput,
  ): Promise<{ candidates: Candidate[]; degradations: RetrievalDegradation[]; isOutdated: boolean }> {
    const { query } = input;
    const settings = input.settings ?? defaults;
    const readable: ReadableDocuments = {
      orgId: actor.orgId,
      acl: keysOf(actor),
      ...(input.includeDocumentIds && { includeDocumentIds: input.includeDocumentIds }),
      ...(input.excludeDocumentIds && { excludeDocumentIds: input.excludeDocumentIds }),
    };
    const terms = [...new Set(contentStems(analyze(query)))];
    const [wordHits, meaning] = await Promise.all([
      settings.mode === 'vector' ? [] : words.searchWords({ readable, terms, limit: settings.wordMatchLimit }),
      settings.mode === 'word_match' ? { hits: [], degradations: [] } : searchMeaning(readable, input, settings),
    ]);
    const legs = [wordHits.map((hit) => hit.chunkId), meaning.hits.map((hit) => hit.chunkId)];
    const ids = fuse(legs, settings.rrfK)
      .slice(0, candidateCount)
      .map((hit) => hit.id);
    const loaded = new Map((await repository.loadReadable(actor, ids)).map((chunk) => [chunk.chunkId, chunk]));
    return {
      candidates: ids.flatMap((id) => loaded.get(id) ?? []),
      degradations: meaning.degradations,
      isOutdated: loaded.size < ids.length,
    };
  }

  /** What `retrieve` chooses from: all that was found, best first. */
  async function rankChunks(
    actor: Actor,
    input: RetrieveInput,
  ): Promise<{ ranked: Candidate[]; degradations: RetrievalDegradation[] }> {
    const bounded = { ...input, query: input.query.slice(0, queryCharacters) };
    let found = await search(actor, bounded);
    // A document has come to another generation between its chunks' search and their texts: the new ones are there.
    if (found.isOutdated) found = await search(actor, bounded);
    const { ranked, degradations } = await rerank(found.candidates, bounded);
    return { ranked, degradations: [...found.degradations, ...degradations] };
  }

  return {
    /**
     * The chunks that answer the query best among the documents that the actor may read: a word leg (BM25) and a
     * vector leg, fused by reciprocal rank, and reranked where wanted. Readability is checked in both legs and again when the texts are loaded.
     */
    async retrieve(actor: Actor, input: RetrieveInput): Promise<Retrieval> {
      const { ranked, degradations } = await rankChunks(actor, input);
      const limits = { ...contextLimits, tokens: input.contextTokens ?? contextLimits.tokens };
      return { chunks: selectChunks(ranked, limits), degradations };
    },

    rankChunks,

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
