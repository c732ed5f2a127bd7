import { NotFoundError } from 'openai';
import { isPlainObject } from '#src/adapters/providers.ts';
import { type ModelKind, modelKindByName } from '#src/domain/agents/prices.ts';
import { appError } from '#src/errors.ts';
import type { ListedModel, ModelCatalog } from '#src/ports/models.ts';
import { createModelErrorMapper, createOpenAiClient, type ModelEndpoint } from './openai-client.ts';

/** Timeout for the list of models: short, because an API request waits for it if none is cached. */
const callTimeoutMs = 3_000;
const maxModels = 1_000;

const kinds: readonly string[] = ['chat', 'embedding', 'reranker'] satisfies ModelKind[];
/**
 * Field that holds a model's context window, in this order: Groq and the packaged server, OpenRouter, vLLM, Mistral.
 */
const windowNames = ['context_window', 'context_length', 'max_model_len', 'max_context_length'];

export function createModelCatalog(endpoint: ModelEndpoint & { timeoutMs?: number }): ModelCatalog {
  const client = createOpenAiClient(endpoint, endpoint.timeoutMs ?? callTimeoutMs);
  const toModelError = createModelErrorMapper(endpoint);
  return {
    async list() {
      const answer: unknown = await client.get('/models').catch((error: unknown) => {
        if (error instanceof NotFoundError) return { data: [] };
        throw toModelError(error);
      });
      const data = isPlainObject(answer) ? answer.data : undefined;
      if (!Array.isArray(data)) {
        throw appError('model_response_invalid', {
          detail: 'The response of the model service to GET /models is not a list of models.',
        });
      }
      return data.slice(0, maxModels).flatMap(readModel);
    },
  };
}

function readModel(entry: unknown): ListedModel[] {
  if (!isPlainObject(entry) || typeof entry.id !== 'string') return [];
  const kind = isKind(entry.kind) ? entry.kind : modelKindByName(entry.id);
  if (kind === null) return [];
  const window = windowNames.map((name) => entry[name]).find(isCount);
  return [
    {
      id: entry.id,
      kind,
      contextWindow: window ?? null,
      contextBudget: isCount(entry.context_budget) ? entry.context_budget : null,
      dimensions: isCount(entry.dimensions) ? entry.dimensions : null,
      queryPrefix: typeof entry.query_prefix === 'string' ? entry.query_prefix : null,
      unrelatedSimilarity: isShare(entry.unrelated_similarity) ? entry.unrelated_similarity : null,
      languages: Array.isArray(entry.languages) ? entry.languages.filter((code) => typeof code === 'string') : null,
      rerankingType: kind === 'reranker' ? (entry.reranking_type === 'llm' ? 'llm' : 'cross_encoder') : null,
      writesJson: entry.structured_output !== false,
      isLocal: entry.local === true,
    },
  ];
}

function isKind(value: unknown): value is ModelKind {
  return typeof value === 'string' && kinds.includes(value);
}

function isCount(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) > 0;
}

function isShare(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value < 1;
}
