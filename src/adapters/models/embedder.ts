import OpenAI from 'openai';
import { appError } from '#src/errors.ts';
import type { Embedder } from '#src/ports/embedder.ts';
import { createModelErrors } from './openai-errors.ts';

const MAX_TEXTS_PER_CALL = 64;
/** 64 texts of 8,192 tokens, the largest chunks allowed, on two slow cores. */
const CALL_TIMEOUT_MS = 5 * 60_000;

/** Embeddings over the OpenAI protocol. Retries belong to the callers, who know whether somebody waits. */
export function createEmbedder(options: { baseUrl: string; apiKey: string; model: string }): Embedder {
  const client = new OpenAI({
    baseURL: options.baseUrl,
    apiKey: options.apiKey,
    organization: null,
    project: null,
    maxRetries: 0,
    timeout: CALL_TIMEOUT_MS,
    logLevel: 'off',
  });
  const toModelError = createModelErrors(options);
  let dimensions: number | undefined;

  async function embedBatch(texts: readonly string[], signal: AbortSignal | undefined): Promise<Float32Array[]> {
    const answer = await client.embeddings
      .create(
        { model: options.model, input: [...texts], encoding_format: 'base64' },
        signal === undefined ? {} : { signal },
      )
      .catch((error: unknown) => {
        throw toModelError(error, signal);
      });
    const vectors = readVectors(answer, texts.length);
    for (const vector of vectors) {
      dimensions ??= vector.length;
      if (vector.length !== dimensions) {
        throw invalid(`a vector of ${vector.length} dimensions came where ${dimensions} were expected`);
      }
    }
    return vectors;
  }

  return {
    model: options.model,
    async embed(texts, { signal } = {}) {
      const vectors: Float32Array[] = [];
      for (let start = 0; start < texts.length; start += MAX_TEXTS_PER_CALL) {
        vectors.push(...(await embedBatch(texts.slice(start, start + MAX_TEXTS_PER_CALL), signal)));
      }
      return vectors;
    },
  };
}

/** What is here is what the service sent, whatever the types of its client promise. */
function readVectors(answer: unknown, count: number): Float32Array[] {
  const data = isRecord(answer) ? answer.data : undefined;
  if (!Array.isArray(data) || data.length !== count) throw invalid(`it should hold ${count} vectors`);
  const vectors: Float32Array[] = new Array(count);
  for (const item of data) {
    const index: unknown = isRecord(item) ? item.index : undefined;
    if (typeof index !== 'number' || !(index in data) || vectors[index] !== undefined) {
      throw invalid('its vectors are not numbered');
    }
    vectors[index] = toUnitVector(decode(item.embedding));
  }
  return vectors;
}

/** Base64 of little-endian 32-bit floats, as asked for, or numbers from a service that does not know the format. */
function decode(embedding: unknown): Float32Array {
  if (Array.isArray(embedding)) return Float32Array.from(embedding, Number);
  if (typeof embedding !== 'string') throw invalid('a vector is missing');
  const bytes = Buffer.from(embedding, 'base64');
  return Float32Array.from({ length: Math.floor(bytes.length / 4) }, (_, index) => bytes.readFloatLE(index * 4));
}

function toUnitVector(vector: Float32Array): Float32Array {
  const norm = Math.hypot(...vector);
  if (!(norm > 0 && norm < Number.POSITIVE_INFINITY)) throw invalid('a vector has no direction');
  return vector.map((value) => value / norm);
}

function invalid(reason: string) {
  return appError('model_response_invalid', {
    detail: `The answer of the embedding service cannot be used: ${reason}.`,
  });
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
