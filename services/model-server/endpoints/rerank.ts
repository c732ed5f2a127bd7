import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Endpoint } from '../endpoint.ts';
import { readJson } from '../json-request.ts';

const MAX_PASSAGES = 1_000;

const text = z.string().min(1, 'An empty text cannot be ranked.');

/** The fields that Cohere's and Jina's rerank APIs share; other fields are ignored. */
const rerankBody = z.object({
  model: z.string(),
  query: text,
  documents: z
    .array(z.union([text, z.object({ text })], { error: 'Each document is a text, or an object with a text.' }))
    .min(1)
    .max(MAX_PASSAGES),
  top_n: z.number().int().min(1).nullish(),
  return_documents: z.boolean().nullish(),
});

export const rerank: Endpoint = async ({ request, models, signal }) => {
  const body = await readJson(request, rerankBody);
  const passages = body.documents.map((document) => (typeof document === 'string' ? document : document.text));
  const { scores, tokens } = await models.reranker(body.model)(body.query, passages, signal);
  const ranked = scores
    .map((score, index) => ({
      index,
      relevance_score: score,
      ...(body.return_documents && { document: { text: passages[index] } }),
    }))
    .toSorted((a, b) => b.relevance_score - a.relevance_score || a.index - b.index);
  return {
    id: randomUUID(),
    model: body.model,
    results: ranked.slice(0, body.top_n ?? ranked.length),
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  };
};
