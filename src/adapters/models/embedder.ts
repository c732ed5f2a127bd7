import { setTimeout as delay } from 'node:timers/promises';
import { isPlainObject } from '#src/adapters/providers.ts';
import {
  type EmbeddingBatchLimits,
  embeddingSpaceId,
  parseEmbeddingSpaceId,
  planEmbeddingBatches,
  splitTextInHalves,
  toUnitLength,
  weightedMeanVector,
} from '#src/domain/documents/embedding.ts';
import { AppError, appError } from '#src/errors.ts';
import type { Embedder, EmbedderFactory, EmbedOptions } from '#src/ports/models.ts';
import {
  createModelErrorMapper,
  createOpenAiClient,
  createSizeLimitedFetch,
  isRequestTooLargeError,
  type ModelEndpoint,
  maxModelResponseBytes,
} from './openai-client.ts';

/** Timeout of an embedding call: enough for 64 chunks of 8,192 tokens (the maximum) on two slow cores. */
const callTimeoutMs = 5 * 60_000;
const bytesOfFloat = 4;
const maxVectorBytes = 128 * 1024;

/**
 * Initial limits of an embedding batch. A call of this size takes about a second on two cores, so repeating a rejected
 * batch costs little.
 */
const firstLimits: EmbeddingBatchLimits = { texts: 64, tokens: 16_000 };
/** Concurrent bulk calls of this process: enough to keep the embedding service busy. */
const maxBulkCalls = 4;
/**
 * A text below twice this length (in characters) is not split if the service rejects it as too large: its length cannot
 * be the reason.
 */
const shortestPiece = 64;

type Numbered = { index: number; vector: Float32Array };

type EmbedderSettings = ModelEndpoint & {
  timeoutMs?: number;
  estimateTokens: (text: string) => number;
};

/**
 * Creates the embedders for the models of one endpoint. All of them share one pause: a Retry-After for one model stops
 * the calls for all.
 */
export function createEmbedders(settings: EmbedderSettings): EmbedderFactory {
  const pacing = createCallPacing(maxBulkCalls);
  const made = new Map<string, Embedder>();
  return {
    of(id) {
      const embedder = made.get(id) ?? createEmbedder({ ...settings, ...parseEmbeddingSpaceId(id), pacing });
      made.set(id, embedder);
      return embedder;
    },
  };
}

/**
 * Embeds texts in batches of similar length. If the service rejects a batch as too large, halves the batch and keeps
 * the smaller size for later batches.
 */
export function createEmbedder(
  options: EmbedderSettings & { model: string; dimensions?: number | null | undefined; pacing?: CallPacing },
): Embedder {
  const { estimateTokens, model, dimensions, pacing = createCallPacing(maxBulkCalls) } = options;
  const call = createEmbeddingCall(options);
  let limits = firstLimits;

  type Caller = { isBulk: boolean; signal: AbortSignal };
  type Text = { index: number; text: string; tokens: number };

  async function embedBatch(
    batch: readonly Text[],
    caller: Caller,
  ): Promise<{ vectors: Numbered[]; isWhole: boolean }> {
    const texts = batch.map(({ text }) => text);
    const answer = await pacing.run(() => call(texts, caller.signal), caller);
    if ('vectors' in answer) {
      return { vectors: batch.flatMap(({ index }, n) => numbered(index, answer.vectors[n])), isWhole: true };
    }
    const [only, second] = batch;
    if (second !== undefined) return { vectors: await embedHalves(batch, caller), isWhole: false };
    if (only === undefined || only.text.length < 2 * shortestPiece) throw answer.tooLarge;
    return { vectors: numbered(only.index, await embedInPieces(only, caller)), isWhole: false };
  }

  async function embedHalves(batch: readonly Text[], caller: Caller): Promise<Numbered[]> {
    const middle = Math.ceil(batch.length / 2);
    const first = await embedBatch(batch.slice(0, middle), caller);
    const second = await embedBatch(batch.slice(middle), caller);
    // Lowers the batch limits only if both halves of a rejected batch were accepted unsplit. Otherwise a single long
    // text was the reason, which says nothing about batch sizes.
    if (first.isWhole && second.isWhole) {
      const tokens = batch.reduce((sum, text) => sum + text.tokens, 0);
      limits = { texts: Math.min(limits.texts, middle), tokens: Math.min(limits.tokens, Math.ceil(tokens / 2)) };
    }
    return [...first.vectors, ...second.vectors];
  }

  async function embedInPieces({ text }: Text, caller: Caller): Promise<Float32Array> {
    const parts = [];
    for (const piece of splitTextInHalves(text)) {
      const weight = estimateTokens(piece);
      const { vectors } = await embedBatch([{ index: 0, text: piece, tokens: weight }], caller);
      for (const { vector } of vectors) parts.push({ vector, weight });
    }
    return weightedMeanVector(parts);
  }

  async function embed(texts: readonly string[], options: EmbedOptions = {}): Promise<Float32Array[]> {
    const { isBulk = false, onVectors } = options;
    const failed = new AbortController();
    const signal = options.signal ? AbortSignal.any([options.signal, failed.signal]) : failed.signal;
    const measured = texts.map((text, index) => ({ index, text, tokens: estimateTokens(text) }));
    const batches = planEmbeddingBatches(
      measured.map(({ tokens }) => tokens),
      limits,
    );
    const embedded: Float32Array[] = new Array(texts.length);

    const run = async (indexes: readonly number[]) => {
      const batch = indexes.flatMap((index) => measured[index] ?? []);
      const { vectors } = await embedBatch(batch, { isBulk, signal });
      for (const { index, vector } of vectors) embedded[index] = vector;
      await onVectors?.(vectors);
    };
    const settled = await Promise.allSettled(
      batches.map((batch) =>
        run(batch).catch((error: unknown) => {
          failed.abort(error);
          throw error;
        }),
      ),
    );
    options.signal?.throwIfAborted();
    if (settled.some(({ status }) => status === 'rejected')) throw failed.signal.reason;
    return embedded;
  }

  return { model: embeddingSpaceId(model, dimensions ?? null), embed };
}

function numbered(index: number, vector: Float32Array | undefined): Numbered[] {
  return vector === undefined ? [] : [{ index, vector }];
}

type EmbeddingAnswer = { vectors: Float32Array[] } | { tooLarge: unknown };

type EmbeddingCall = (texts: readonly string[], signal: AbortSignal | undefined) => Promise<EmbeddingAnswer>;

/**
 * Rejects vectors that come from another model or differ in size from earlier ones, because they cannot be compared
 * with stored vectors.
 */
function createEmbeddingCall(
  options: ModelEndpoint & { model: string; dimensions?: number | null | undefined; timeoutMs?: number },
): EmbeddingCall {
  const deadlineMs = options.timeoutMs ?? callTimeoutMs;
  const client = createOpenAiClient(options, deadlineMs);
  const toModelError = createModelErrorMapper(options);
  const { model } = options;
  const asked = options.dimensions ?? undefined;
  let before: number | undefined;

  return async (texts, signal) => {
    const body = { model, input: [...texts], encoding_format: 'base64' as const };
    let answer: unknown;
    try {
      const dimensionsAsked = asked === undefined ? {} : { dimensions: asked };
      const maxBytes = maxModelResponseBytes + texts.length * maxVectorBytes;
      const { embeddings } = client.withOptions({ fetch: createSizeLimitedFetch({ maxBytes, deadlineMs }) });
      answer = await embeddings.create({ ...body, ...dimensionsAsked }, signal === undefined ? {} : { signal });
    } catch (error) {
      const fault = toModelError(error, signal);
      if (isRequestTooLargeError(error)) return { tooLarge: fault };
      throw fault;
    }
    const answered = isPlainObject(answer) ? answer.model : undefined;
    if (typeof answered === 'string' && answered !== '' && !isSameModel(model, answered)) {
      throw invalid(`it comes from the model ${answered} instead of ${model}`);
    }
    const vectors = readVectors(answer, texts.length);
    const expected = asked ?? before ?? vectors[0]?.length;
    const wrong = vectors.find(({ length }) => length !== expected);
    // After a vector of unexpected size, the next response sets the expected size, because the earlier vectors may have
    // been the wrong ones.
    before = wrong === undefined ? expected : undefined;
    if (wrong !== undefined) {
      throw invalid(`a vector has ${wrong.length} dimensions instead of ${expected}`);
    }
    return { vectors };
  };
}

/**
 * Compares the names of models without a publisher's folder, a tag or a version, because providers add or omit them.
 */
function isSameModel(asked: string, answered: string): boolean {
  const [a, b] = [asked, answered].map((name) => (name.split('/').at(-1) ?? name).toLowerCase()).sort(byLength);
  return a !== undefined && b?.startsWith(a) === true && /^(?:[:@].*|-v?\d[\d.-]*(?:-v\d+)?)?$/.test(b.slice(a.length));
}

function byLength(a: string, b: string): number {
  return a.length - b.length;
}

function readVectors(answer: unknown, count: number): Float32Array[] {
  const data = isPlainObject(answer) ? answer.data : undefined;
  if (!Array.isArray(data) || data.length !== count) throw invalid(`it does not have ${count} vectors`);
  const vectors: Float32Array[] = new Array(count);
  for (const item of data) {
    const index: unknown = isPlainObject(item) ? item.index : undefined;
    if (typeof index !== 'number' || !(index in data) || vectors[index] !== undefined) {
      throw invalid('the indexes of its vectors are wrong');
    }
    vectors[index] = toUnitVector(decode(item.embedding));
  }
  return vectors;
}

/** Decodes base64 floats (little-endian), or the number arrays of services that ignore `encoding_format`. */
function decode(embedding: unknown): Float32Array {
  if (Array.isArray(embedding)) return Float32Array.from(embedding, Number);
  if (typeof embedding !== 'string') throw invalid('a vector is missing');
  const bytes = Buffer.from(embedding, 'base64');
  if (bytes.length % bytesOfFloat !== 0) throw invalid('a vector is truncated');
  return Float32Array.from({ length: bytes.length / bytesOfFloat }, (_, index) =>
    bytes.readFloatLE(index * bytesOfFloat),
  );
}

function toUnitVector(vector: Float32Array): Float32Array {
  const unit = toUnitLength(vector);
  if (unit.length === 0 || !unit.every(Number.isFinite)) throw invalid('a vector is empty, zero or not finite');
  return unit;
}

function invalid(reason: string): AppError {
  return appError('model_response_invalid', {
    detail: `The response of the embedding service is invalid: ${reason}.`,
  });
}

/** Longest wait of a bulk call for a slot and for the end of a pause; after that, Temporal retries its activity. */
const timeoutMs = 60_000;

type CallPacing = {
  /**
   * During a pause (Retry-After), bulk calls wait, but calls for a waiting user fail with `model_unavailable`. Calls
   * for a waiting user are not limited in number.
   */
  run<T>(call: () => Promise<T>, options: { isBulk: boolean; signal: AbortSignal | undefined }): Promise<T>;
};

function createCallPacing(maxBulkCalls: number): CallPacing {
  let notBeforeMs = 0;
  let running = 0;
  const waiting: (() => void)[] = [];

  async function takeSlot(signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    if (running < maxBulkCalls) {
      running += 1;
      return;
    }
    await new Promise<void>((resolve, reject) => {
      const begin = () => {
        signal?.removeEventListener('abort', leave);
        resolve();
      };
      const leave = () => {
        waiting.splice(waiting.indexOf(begin), 1);
        reject(signal?.reason);
      };
      waiting.push(begin);
      signal?.addEventListener('abort', leave, { once: true });
    });
  }

  function releaseSlot(): void {
    const next = waiting.shift();
    if (next) next();
    else running -= 1;
  }

  function notePause(error: unknown): void {
    if (!(error instanceof AppError) || error.retryAfterSeconds === undefined) return;
    notBeforeMs = Math.max(notBeforeMs, Date.now() + error.retryAfterSeconds * 1000);
  }

  function paused(): AppError {
    return appError('model_unavailable', {
      detail: 'The model service limits the rate of calls.',
      retryAfterSeconds: Math.max(1, Math.ceil((notBeforeMs - Date.now()) / 1000)),
    });
  }

  async function runNow<T>(call: () => Promise<T>): Promise<T> {
    if (Date.now() < notBeforeMs) throw paused();
    try {
      return await call();
    } catch (error) {
      notePause(error);
      throw error;
    }
  }

  async function runAfterPauses<T>(call: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    const givesUpAtMs = Date.now() + timeoutMs;
    for (;;) {
      if (notBeforeMs > givesUpAtMs) throw paused();
      while (Date.now() < notBeforeMs) await delay(notBeforeMs - Date.now(), undefined, signal && { signal });
      try {
        return await runNow(call);
      } catch (error) {
        if (!(error instanceof AppError) || error.retryAfterSeconds === undefined) throw error;
      }
    }
  }

  return {
    async run(call, { isBulk, signal }) {
      if (!isBulk) return runNow(call);
      await takeSlot(signal);
      try {
        return await runAfterPauses(call, signal);
      } finally {
        releaseSlot();
      }
    },
  };
}
