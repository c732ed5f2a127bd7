import { isRecord } from '#src/adapters/provider-json.ts';
import { appError } from '#src/errors.ts';
import type { Reranker } from '#src/ports/models.ts';
import { createOpenAiClient, type Endpoint } from './openai-client.ts';
import { createModelErrors } from './openai-errors.ts';

/** A small language model takes a second a passage. */
const callTimeoutMs = 60_000;

/** `POST {base}/rerank` in the shape that Cohere and Jina share: `{model, query, documents}` → `{results: [{index, relevance_score}]}`. */
export function createReranker(endpoint: Endpoint & { timeoutMs?: number }): Reranker {
  const client = createOpenAiClient(endpoint, endpoint.timeoutMs ?? callTimeoutMs);
  const toModelError = createModelErrors(endpoint);
  return {
    async rerank({ model, query, documents, signal }) {
      const body = { ...(model !== null && { model }), query, documents, return_documents: false };
      const answer: unknown = await client.post('/rerank', { body, signal }).catch((error: unknown) => {
        throw toModelError(error, signal);
      });
      return readScores(answer, documents.length);
    },
  };
}

function readScores(answer: unknown, count: number): number[] {
  const results = isRecord(answer) ? answer.results : undefined;
  if (!Array.isArray(results) || results.length !== count) throw invalid(`it should hold ${count} scores`);
  const scores: number[] = new Array(count);
  for (const result of results) {
    const { index, relevance_score: score }: Record<string, unknown> = isRecord(result) ? result : {};
    if (typeof index !== 'number' || !(index in results) || scores[index] !== undefined) {
      throw invalid('its scores are not numbered');
    }
    if (typeof score !== 'number' || !Number.isFinite(score)) throw invalid('a score is no number');
    scores[index] = score;
  }
  return scores;
}

function invalid(reason: string) {
  return appError('model_response_invalid', { detail: `The answer of the reranker cannot be used: ${reason}.` });
}
