import type { Actor } from '#src/domain/access/visibility.ts';
import { contextLimits, selectChunks } from '#src/domain/chat/context-window.ts';
import { keepTopK, planReranking, type RerankingOptions } from '#src/domain/retrieval/reranking.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import { createGroupSearch, type GroupQuery } from './group-search.ts';
import type { LegSearchDeps } from './leg-search.ts';
import { createPartReader } from './part-reader.ts';
import type { PassageRanker } from './passage-ranker.ts';
import { createPassageSearch } from './passage-search.ts';
import type { Candidate, Retrieval, RetrievalDegradation } from './retrieval.model.ts';
import { createRetrievalRepository } from './retrieval.repository.ts';

/** A question is in its beginning; a text pasted behind it would drown it, and cost a search for each of its words. */
const queryCharacters = 4_000;

export type { PassageHit, RetrievalDegradation, RetrievedChunk } from './retrieval.model.ts';

export type RetrievalService = ReturnType<typeof createRetrievalService>;

export type RetrieveInput = GroupQuery & {
  reranking: RerankingOptions;
  /** Of the passages together, where that is less than the usual budget. */
  contextTokens: number | null;
};

type Ranking = { ranked: Candidate[]; degradations: RetrievalDegradation[] };

/** Finds the passages that answer a question, among the documents that the actor may read, each by its own settings. */
export function createRetrievalService(
  deps: LegSearchDeps & { rank: PassageRanker; models: Pick<ModelsService, 'reranker'> },
) {
  const { db, rank, models, logger } = deps;
  const repository = createRetrievalRepository(db);
  const search = createGroupSearch({ ...deps, repository });

  /** Where the chat or a group wants it; the order stays as it is when it fails. */
  async function rerank(
    actor: Actor,
    candidates: Candidate[],
    { query, reranking: wish, signal }: RetrieveInput,
  ): Promise<Ranking> {
    const unchanged = { ranked: candidates, degradations: [] };
    const type = planReranking(candidates, wish);
    if (type === null) return unchanged;
    // A deployment that lost its reranker has documents that still name one. A chat that asks for it is told.
    if (type === 'cross_encoder' && wish.isEnabled !== true && (await models.reranker('cross_encoder')) === null)
      return unchanged;
    let { ranked, degradations }: Ranking = unchanged;
    try {
      ranked = keepTopK(await rank(type, { query, passages: candidates, signal }), wish);
    } catch (error) {
      signal.throwIfAborted();
      logger.warn({ err: error }, 'passages keep the order in which they were found');
      degradations = [{ reason: 'reranker_unavailable' }];
    }
    // That may have taken half a minute, in which a document changed hands, whether it went well or not.
    const readable = await repository.readableChunkIds(
      actor,
      ranked.map(({ chunkId }) => chunkId),
    );
    return { ranked: ranked.filter(({ chunkId }) => readable.has(chunkId)), degradations };
  }

  /**
   * What `retrieve` chooses from: all that was found, best first. A word leg (BM25) and a vector leg for each group of
   * documents, fused by reciprocal rank, merged, and reranked where wanted.
   */
  async function rankChunks(actor: Actor, input: RetrieveInput): Promise<Ranking> {
    const query = input.query.slice(0, queryCharacters).toWellFormed();
    if (query.trim() === '') return { ranked: [], degradations: [] };
    const found = await search(actor, { ...input, query });
    const { ranked, degradations } = await rerank(actor, found.candidates, { ...input, query });
    return { ranked, degradations: [...found.degradations, ...degradations] };
  }

  return {
    /** The best of `rankChunks`, as many as a prompt should hold. Throws `service_unavailable` when no leg can answer. */
    async retrieve(actor: Actor, input: RetrieveInput): Promise<Retrieval> {
      const { ranked, degradations } = await rankChunks(actor, input);
      const tokens = Math.min(contextLimits.tokens, input.contextTokens ?? contextLimits.tokens);
      return { chunks: selectChunks(ranked, { ...contextLimits, tokens }), degradations };
    },

    rankChunks,

    /** The documents whose texts have words of the query, by their best passages; the words only, without its meaning. */
    searchPassages: createPassageSearch(deps),

    readPart: createPartReader(repository),

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
