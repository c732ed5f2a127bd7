import type { Knex } from 'knex';
import type { Logger } from 'pino';
import { defaultRagConfig, type RagConfig } from '#src/domain/documents/rag-config.ts';
import type { RetrievalHit } from '#src/domain/retrieval/fusion-and-reranking.ts';
import { queryTerms, type TextAnalyzer } from '#src/domain/text/words.ts';
import { AppError, appError } from '#src/errors.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { FairWorkQueue } from '#src/ports/load-control.ts';
import type { EmbedderFactory } from '#src/ports/models.ts';
import type { ReadableDocumentsFilter, VectorStore } from '#src/ports/vector-store.ts';
import type { DocumentGroup, RetrievalDegradation } from './retrieval.model.ts';
import { createWordSearchRepository } from './word-search.repository.ts';

/**
 * Document groups that are searched together, because their settings differ only in `rrf_k`, which does not affect
 * searching. Limits and minimum similarity apply to all of them together.
 */
export type PlannedGroupSearch = {
  key: string;
  groups: readonly DocumentGroup[];
  settings: Omit<RagConfig['retrieval'], 'rrfK'>;
  embeddingModel: string;
};

/**
 * Maximum number of document groups that are searched by their own settings, to limit the cost of a question; three or
 * four groups are usual.
 */
export const maxGroupsSearchedByOwnSettings = 16;

/**
 * Chooses the groups that are searched by their own settings: all, or those with the most documents if there are too
 * many.
 * @param count returns the number of readable documents by group signature
 */
export async function chooseGroupsWithOwnSearch(
  groups: readonly DocumentGroup[],
  count: () => Promise<ReadonlyMap<string, number>>,
): Promise<ReadonlySet<string>> {
  const alike = Map.groupBy(groups, keyOf);
  if (alike.size <= maxGroupsSearchedByOwnSettings) return new Set(alike.keys());
  const counts = await count();
  const sizes = Array.from(alike, ([key, members]) => {
    return { key, size: members.reduce((sum, { signature }) => sum + (counts.get(signature) ?? 0), 0) };
  });
  // Sorts groups of equal size by key, so that a repeated question gets the same answer.
  const largest = sizes
    .sort((a, b) => b.size - a.size || (a.key < b.key ? -1 : 1))
    .slice(0, maxGroupsSearchedByOwnSettings);
  return new Set(largest.map(({ key }) => key));
}

/**
 * Plans one search for each distinct search setting. Groups that are not in `own` are searched together by the default
 * settings, once per embedding model.
 */
export function planGroupSearches(groups: readonly DocumentGroup[], own: ReadonlySet<string>): PlannedGroupSearch[] {
  const planned = groups.map((group) => {
    const key = keyOf(group);
    return own.has(key) ? { key, group } : { key: `others ${group.embeddingModel}`, group: asNew(group) };
  });
  return Array.from(Map.groupBy(planned, ({ key }) => key).values()).flatMap((members) => {
    const [first] = members;
    if (first === undefined) return [];
    const { key, group } = first;
    const { settings, embeddingModel } = group;
    return { key, groups: members.map((member) => member.group), settings, embeddingModel };
  });
}

function keyOf({ settings: { rrfK: _fusesOnly, ...searched }, embeddingModel }: DocumentGroup): string {
  return JSON.stringify([searched, embeddingModel]);
}

export function languagesOf(groups: readonly DocumentGroup[]): string[] {
  return [...new Set(groups.flatMap(({ languages }) => languages))];
}

function asNew(group: DocumentGroup): DocumentGroup {
  const { retrieval } = defaultRagConfig({ embeddingModel: group.embeddingModel, hasReranker: false });
  return { ...group, settings: retrieval };
}

/**
 * A BM25 search or a vector search for a question, optionally restricted to some documents. It requests `asked` hits,
 * of which `limit` are used.
 */
export type ChunkSearch = {
  search: PlannedGroupSearch;
  kind: 'words' | 'vectors';
  limit: number;
  asked: number;
  onlyDocumentIds?: readonly string[] | undefined;
};

export type ChunkSearchDeps = {
  db: Knex;
  vectors: Pick<VectorStore, 'search'>;
  embedders: EmbedderFactory;
  analyze: TextAnalyzer;
  models: Pick<ModelsService, 'queryPrefix' | 'languages'>;
  logger: Pick<Logger, 'warn'>;
  /**
   * Queues that limit the concurrent searches of this process, fair among organizations, so that other requests get
   * database connections. BM25 and vector searches have separate queues, because the vector store may not answer.
   */
  inTurn: Record<ChunkSearch['kind'], FairWorkQueue>;
  /** Timeout of each BM25 or vector search; after it, the user gets the hits of the other searches only. */
  timeoutMs?: number;
};

export function createChunkSearchRunner(deps: ChunkSearchDeps) {
  const { db, vectors, embedders, analyze, models, logger, inTurn, timeoutMs = 10_000 } = deps;
  const { searchWords } = createWordSearchRepository(db);

  return (documents: ReadableDocumentsFilter, { query, signal }: { query: string; signal: AbortSignal }) => {
    const queryVectors = new Map<string, Promise<Float32Array | null>>();
    const degradations = new Set<RetrievalDegradation['reason']>();
    const withTimeout = () => AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);

    function degrade(reason: RetrievalDegradation['reason'], error: unknown): null {
      signal.throwIfAborted();
      logger.warn({ err: error, reason }, 'a BM25 or vector search failed; its hits are missing');
      degradations.add(reason);
      return null;
    }

    async function embedQuery(model: string): Promise<Float32Array | null> {
      try {
        const text = `${await models.queryPrefix(model)}${query}`;
        const [vector] = await embedders.of(model).embed([text], { signal: withTimeout() });
        if (vector === undefined)
          throw appError('model_response_invalid', {
            detail: 'The embedding model returned no vector for the question.',
          });
        return vector;
      } catch (error) {
        return degrade('embedder_unavailable', error);
      }
    }

    function queryVector(model: string): Promise<Float32Array | null> {
      const vector = queryVectors.get(model) ?? embedQuery(model);
      queryVectors.set(model, vector);
      return vector;
    }

    const readableOf = ({ search, onlyDocumentIds }: ChunkSearch): ReadableDocumentsFilter => ({
      ...documents,
      retrievalSettings: search.groups.map(({ retrievalSettings }) => retrievalSettings),
      ...(onlyDocumentIds && { includeDocumentIds: onlyDocumentIds }),
    });

    async function byWords(leg: ChunkSearch): Promise<RetrievalHit[] | null> {
      const { search, asked: limit } = leg;
      signal.throwIfAborted();
      // Runs no further BM25 search after one has timed out, because it would time out too.
      if (degradations.has('word_search_unavailable')) return null;
      const readable = readableOf(leg);
      const terms = queryTerms(query, languagesOf(search.groups), analyze);
      try {
        const hits = await searchWords({ readable, model: search.embeddingModel, terms, limit, timeoutMs });
        return hits.map(({ chunkId, score }) => ({ id: chunkId, score }));
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        return degrade('word_search_unavailable', error);
      }
    }

    async function byVectors(leg: ChunkSearch): Promise<RetrievalHit[] | null> {
      const { search, asked: limit } = leg;
      const { embeddingModel: model, settings } = search;
      const vector = await queryVector(model);
      // Skips a vector store that has already failed to answer, because a second timeout would double the wait.
      if (vector === null || degradations.has('vector_store_unavailable')) return null;
      const readable = readableOf(leg);
      const minSimilarity = settings.minVectorSimilarity;
      const waiting = withTimeout();
      try {
        const hits = await inTurn.vectors(readable.orgId, () =>
          vectors.search({ readable, model, vector, limit, minSimilarity, signal: waiting }),
        );
        return hits.map(({ chunkId, similarity }) => ({ id: chunkId, score: similarity }));
      } catch (error) {
        if (!(error instanceof AppError) && !waiting.aborted) throw error;
        return degrade('vector_store_unavailable', error);
      }
    }

    return {
      search: (leg: ChunkSearch): Promise<RetrievalHit[] | null> =>
        leg.kind === 'words' ? inTurn.words(documents.orgId, () => byWords(leg)) : byVectors(leg),
      degradations: (): RetrievalDegradation[] => Array.from(degradations, (reason) => ({ reason })),
    };
  };
}
