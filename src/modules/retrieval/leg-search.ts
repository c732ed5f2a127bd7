import type { Knex } from 'knex';
import type { Logger } from 'pino';
import type { LegHit } from '#src/domain/retrieval/fusion.ts';
import { type AnalyzeText, contentStems } from '#src/domain/text/words.ts';
import { AppError, appError } from '#src/errors.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { FairQueue } from '#src/ports/limits.ts';
import type { Embedders } from '#src/ports/models.ts';
import type { ReadableDocuments, VectorStore } from '#src/ports/vector-store.ts';
import type { RetrievalDegradation } from './retrieval.model.ts';
import type { Search } from './search-plan.ts';
import { createWordSearchRepository } from './word-search.repository.ts';

/** One leg of a search, or of some documents of it, for `asked` hits, of which `limit` count. */
export type Leg = {
  search: Search;
  kind: 'words' | 'vectors';
  limit: number;
  asked: number;
  onlyDocumentIds?: readonly string[] | undefined;
};

export type LegSearchDeps = {
  db: Knex;
  vectors: Pick<VectorStore, 'search'>;
  embedders: Embedders;
  analyze: AnalyzeText;
  models: Pick<ModelsService, 'queryPrefix'>;
  logger: Pick<Logger, 'warn'>;
  /**
   * How many searches this process has running at once, in turns of organizations: those of many groups, or of many
   * questions, leave connections of the database for the others. Words do not wait for vectors, whose store may not
   * answer.
   */
  inTurn: Record<Leg['kind'], FairQueue>;
  /** A person waits for the answer: rather words alone than a slow embedder, or a slow store. */
  timeoutMs?: number;
};

/** Searches the legs of one query, which is embedded once for each model that they need. */
export function createLegSearch(deps: LegSearchDeps) {
  const { db, vectors, embedders, analyze, models, logger, inTurn, timeoutMs = 10_000 } = deps;
  const { searchWords } = createWordSearchRepository(db);

  return (documents: ReadableDocuments, { query, signal }: { query: string; signal: AbortSignal }) => {
    const terms = [...new Set(contentStems(analyze(query)))];
    const queryVectors = new Map<string, Promise<Float32Array | null>>();
    const degradations = new Set<RetrievalDegradation['reason']>();
    const patience = () => AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);

    function goOnWithout(reason: RetrievalDegradation['reason'], error: unknown): null {
      signal.throwIfAborted();
      logger.warn({ err: error, reason }, 'retrieval goes on with less');
      degradations.add(reason);
      return null;
    }

    async function embedQuery(model: string): Promise<Float32Array | null> {
      try {
        const text = `${await models.queryPrefix(model)}${query}`;
        const [vector] = await embedders.of(model).embed([text], { signal: patience() });
        if (vector === undefined) throw appError('model_response_invalid', { detail: 'A vector is missing.' });
        return vector;
      } catch (error) {
        return goOnWithout('embedder_unavailable', error);
      }
    }

    function queryVector(model: string): Promise<Float32Array | null> {
      const vector = queryVectors.get(model) ?? embedQuery(model);
      queryVectors.set(model, vector);
      return vector;
    }

    const readableOf = ({ search, onlyDocumentIds }: Leg): ReadableDocuments => ({
      ...documents,
      retrievalSettings: search.groups.map(({ retrievalSettings }) => retrievalSettings),
      ...(onlyDocumentIds && { includeDocumentIds: onlyDocumentIds }),
    });

    async function byWords(leg: Leg): Promise<LegHit[] | null> {
      const { search, asked: limit } = leg;
      signal.throwIfAborted();
      // Nor is there time for another long search.
      if (degradations.has('word_search_unavailable')) return null;
      const readable = readableOf(leg);
      try {
        const hits = await searchWords({ readable, model: search.embeddingModel, terms, limit, timeoutMs });
        return hits.map(({ chunkId, score }) => ({ id: chunkId, score }));
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        return goOnWithout('word_search_unavailable', error);
      }
    }

    async function byVectors(leg: Leg): Promise<LegHit[] | null> {
      const { search, asked: limit } = leg;
      const { embeddingModel: model, settings } = search;
      const vector = await queryVector(model);
      // A second look at a store that has not answered would double the wait.
      if (vector === null || degradations.has('vector_store_unavailable')) return null;
      const readable = readableOf(leg);
      const minSimilarity = settings.minVectorSimilarity;
      const waiting = patience();
      try {
        const hits = await inTurn.vectors(readable.orgId, () =>
          vectors.search({ readable, model, vector, limit, minSimilarity, signal: waiting }),
        );
        return hits.map(({ chunkId, similarity }) => ({ id: chunkId, score: similarity }));
      } catch (error) {
        if (!(error instanceof AppError) && !waiting.aborted) throw error;
        return goOnWithout('vector_store_unavailable', error);
      }
    }

    return {
      /** Best first; null when the leg cannot answer, which `degradations` then gives a reason for. */
      search: (leg: Leg): Promise<LegHit[] | null> =>
        leg.kind === 'words' ? inTurn.words(documents.orgId, () => byWords(leg)) : byVectors(leg),
      /** Each reason once. */
      degradations: (): RetrievalDegradation[] => Array.from(degradations, (reason) => ({ reason })),
    };
  };
}
