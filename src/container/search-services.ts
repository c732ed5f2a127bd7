import { createFairWorkQueue } from '../adapters/limits.ts';
import { createReranker } from '../adapters/models/reranker.ts';
import { observedReranker } from '../adapters/telemetry/observed-ports.ts';
import { createPassageRanker } from '../modules/retrieval/passage-ranker.ts';
import { createRetrievalService } from '../modules/retrieval/retrieval.service.ts';
import { createSearchService } from '../modules/search/search.service.ts';
import type { SharedServices } from './shared-services.ts';

export function createSearchServices(shared: SharedServices) {
  const { config, db, vectors, embedders, analyze, chatModel, models, logger, telemetry } = shared;
  const { traceparent } = telemetry.tracing;
  const rerankerAt = (endpoint: { baseUrl: string; apiKey: string }) =>
    observedReranker(createReranker({ ...endpoint, traceparent }), telemetry);
  const rank = createPassageRanker({
    rerankers: { crossEncoder: rerankerAt(config.models.reranker), chatProvider: rerankerAt(config.models) },
    chatModel,
    models,
    spotlight: config.models.spotlight,
  });
  // Full-text search and vector search may each use two fifths of the database connections; a fifth stays free for
  // other requests.
  const searchesAtOnce = Math.max(1, Math.floor(config.database.poolSize * 0.4));
  const inTurn = { words: createFairWorkQueue(searchesAtOnce), vectors: createFairWorkQueue(searchesAtOnce) };
  const retrieval = createRetrievalService({ db, vectors, embedders, analyze, rank, models, logger, inTurn });
  return { retrieval, search: createSearchService({ db, retrieval, analyze, inTurn: inTurn.words }) };
}

export type SearchServices = ReturnType<typeof createSearchServices>;
