import type { Endpoint } from '../endpoint.ts';
import { extractive } from '../model-manifest.ts';
import type { ServedModels } from '../served-models.ts';

const FREE = { input: 0, cached_input: 0, output: 0 };

/** Handles `GET /v1/models`. `kind`, `license` and sizes are additions to OpenAI's fields. */
export const models: Endpoint = async ({ models: served }) => ({ object: 'list', data: served.list().map(describe) });

function describe(model: ReturnType<ServedModels['list']>[number]) {
  const { id, ownedBy, license, kind } = model;
  return {
    ...{ id, object: 'model', created: 0, owned_by: ownedBy, license, kind, local: true },
    ...(model.kind === 'reranker' ? { reranking_type: model.type } : { context_window: model.windowTokens }),
    ...(model.kind === 'chat' && {
      context_budget: model.contextBudgetTokens,
      structured_output: model.id !== extractive.id,
    }),
    ...(model.kind === 'embedding' && {
      dimensions: model.dimensions,
      languages: model.languages,
      query_prefix: model.queryPrefix,
      unrelated_similarity: model.unrelatedSimilarity,
    }),
    // US dollars for a million tokens.
    prices: FREE,
  };
}
