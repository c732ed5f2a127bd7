import { isPlainObject } from '#src/adapters/providers.ts';
import { appError } from '#src/errors.ts';
import type { Reranker } from '#src/ports/models.ts';
import { createModelErrorMapper, createOpenAiClient, type ModelEndpoint } from './openai-client.ts';

const callTimeoutMs = 60_000;

export function createReranker(endpoint: ModelEndpoint & { timeoutMs?: number }): Reranker {
  const client = createOpenAiClient(endpoint, endpoint.timeoutMs ?? callTimeoutMs);
  const toModelError = createModelErrorMapper(endpoint);
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
  const results = isPlainObject(answer) ? answer.results : undefined;
  if (!Array.isArray(results) || results.length !== count) throw invalid(`it does not have ${count} scores`);
  const scores: number[] = new Array(count);
  for (const result of results) {
    const { index, relevance_score: score }: Record<string, unknown> = isPlainObject(result) ? result : {};
    if (typeof index !== 'number' || !(index in results) || scores[index] !== undefined) {
      throw invalid('the indexes of its scores are wrong');
    }
    if (typeof score !== 'number' || !Number.isFinite(score)) throw invalid('a score is not a number');
    scores[index] = score;
  }
  return scores;
}

function invalid(reason: string) {
  return appError('model_response_invalid', { detail: `The response of the reranker is invalid: ${reason}.` });
}
