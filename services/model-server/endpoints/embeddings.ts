import { z } from 'zod';
import type { Endpoint } from '../endpoint.ts';
import { readJson } from '../json-request.ts';
import { OpenAiError } from '../openai-error.ts';

const text = z.string().min(1, 'An empty text cannot be embedded.');

const embeddingsBody = z.object({
  model: z.string(),
  input: z.union([text.transform((one) => [one]), z.array(text).min(1).max(2048)], {
    error: 'Give a text or an array of 1 to 2048 texts, none of them empty.',
  }),
  encoding_format: z.enum(['float', 'base64']).default('float'),
  dimensions: z.number().int().optional(),
});

export const embeddings: Endpoint = async ({ request, models, signal }) => {
  const body = await readJson(request, embeddingsBody);
  const { model, embedder } = models.embedder(body.model);
  if (body.dimensions !== undefined && body.dimensions !== model.dimensions) {
    throw new OpenAiError(400, `dimensions must be ${model.dimensions}, the dimensions of the model, or omitted.`, {
      param: 'dimensions',
    });
  }

  const results = await embedder.embed(body.input, signal);
  const tokens = results.reduce((total, result) => total + result.tokens, 0);
  return {
    object: 'list',
    model: model.id,
    data: results.map(({ vector }, index) => ({
      object: 'embedding',
      index,
      embedding: body.encoding_format === 'base64' ? toBase64(vector) : [...vector],
    })),
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  };
};

/** Encodes little-endian Float32 as OpenAI does; every platform that Node.js supports is little-endian. */
function toBase64(vector: Float32Array): string {
  return Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString('base64');
}
