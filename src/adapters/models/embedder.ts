import { isRecord } from '#src/adapters/provider-json.ts';
import {
  type BatchLimits,
  embeddingSpace,
  planBatches,
  poolVectors,
  readEmbeddingSpace,
  splitInHalves,
  toUnitLength,
} from '#src/domain/documents/embedding.ts';
import { type AppError, appError } from '#src/errors.ts';
import type { Embedder, Embedders, EmbedOptions } from '#src/ports/models.ts';
import { type CallPacing, createCallPacing } from './call-pacing.ts';
import { createOpenAiClient, type Endpoint, limitedFetch, maxAnswerBytes } from './openai-client.ts';
import { createModelErrors, isTooLarge } from './openai-errors.ts';

/** Enough for 64 texts of 8,192 tokens, the largest chunks, on two slow cores. */
const callTimeoutMs = 5 * 60_000;
const bytesOfFloat = 4;
/** Limit of one vector in a response: 5,000 numbers as text. */
const maxVectorBytes = 128 * 1024;

/** A vector for each text, or why the call was refused as too large. */
type EmbeddingAnswer = { vectors: Float32Array[] } | { tooLarge: unknown };

type EmbeddingCall = (texts: readonly string[], signal: AbortSignal | undefined) => Promise<EmbeddingAnswer>;

/**
 * One call of the Embeddings endpoint. Rejects a response of another model, or with vectors of another size than requested
 * (or than before), because they could not be compared with stored vectors.
 */
function createEmbeddingCall(
  options: Endpoint & { model: string; dimensions?: number | null | undefined; timeoutMs?: number },
): EmbeddingCall {
  const deadlineMs = options.timeoutMs ?? callTimeoutMs;
  const client = createOpenAiClient(options, deadlineMs);
  const toModelError = createModelErrors(options);
  const { model } = options;
  const asked = options.dimensions ?? undefined;
  let before: number | undefined;

  return async (texts, signal) => {
    const body = { model, input: [...texts], encoding_format: 'base64' as const };
    let answer: unknown;
    try {
      const dimensionsAsked = asked === undefined ? {} : { dimensions: asked };
      const maxBytes = maxAnswerBytes + texts.length * maxVectorBytes;
      const { embeddings } = client.withOptions({ fetch: limitedFetch({ maxBytes, deadlineMs }) });
      answer = await embeddings.create({ ...body, ...dimensionsAsked }, signal === undefined ? {} : { signal });
    } catch (error) {
      const fault = toModelError(error, signal);
      if (isTooLarge(error)) return { tooLarge: fault };
      throw fault;
    }
    const answered = isRecord(answer) ? answer.model : undefined;
    if (typeof answered === 'string' && answered !== '' && !isSameModel(model, answered)) {
      throw invalid(`the model ${answered} answered where ${model} was asked`);
    }
    const vectors = readVectors(answer, texts.length);
    const expected = asked ?? before ?? vectors[0]?.length;
    const wrong = vectors.find(({ length }) => length !== expected);
    // Either of the two answers may be the wrong one, so the next one decides.
    before = wrong === undefined ? expected : undefined;
    if (wrong !== undefined) {
      throw invalid(`a vector of ${wrong.length} dimensions came where ${expected} were expected`);
    }
    return { vectors };
  };
}

/** Providers add a publisher's folder, a tag or a version to a name, or leave them out; anything else is another model. */
function isSameModel(asked: string, answered: string): boolean {
  const [a, b] = [asked, answered].map((name) => (name.split('/').at(-1) ?? name).toLowerCase()).sort(byLength);
  return a !== undefined && b?.startsWith(a) === true && /^(?:[:@].*|-v?\d[\d.-]*(?:-v\d+)?)?$/.test(b.slice(a.length));
}

function byLength(a: string, b: string): number {
  return a.length - b.length;
}

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
  if (bytes.length % bytesOfFloat !== 0) throw invalid('a vector is cut off');
  return Float32Array.from({ length: bytes.length / bytesOfFloat }, (_, index) =>
    bytes.readFloatLE(index * bytesOfFloat),
  );
}

function toUnitVector(vector: Float32Array): Float32Array {
  const unit = toUnitLength(vector);
  if (unit.length === 0 || !unit.every(Number.isFinite)) throw invalid('a vector has no direction');
  return unit;
}

function invalid(reason: string): AppError {
  return appError('model_response_invalid', {
    detail: `The answer of the embedding service cannot be used: ${reason}.`,
  });
}

/** Calls of about a second on two cores: small enough to be repeated, large enough for what a call costs. */
const firstLimits: BatchLimits = { texts: 64, tokens: 16_000 };
/** Bulk calls at once in this process: one computes while the next is on its way. */
const maxBulkCalls = 4;
/** A service that refuses even such a piece refuses it for another reason than its length. */
const shortestPiece = 64;

type Numbered = { index: number; vector: Float32Array };

type EmbedderSettings = Endpoint & {
  /** Of one call. */
  timeoutMs?: number;
  /** Of any tokenizer: it decides what shares a call. */
  estimateTokens: (text: string) => number;
};

/** All embedding models of one endpoint. They share its pace: a service that asks one for a pause asks them all. */
export function createEmbedders(settings: EmbedderSettings): Embedders {
  const pacing = createCallPacing(maxBulkCalls);
  const made = new Map<string, Embedder>();
  return {
    of(id) {
      const embedder = made.get(id) ?? createEmbedder({ ...settings, ...readEmbeddingSpace(id), pacing });
      made.set(id, embedder);
      return embedder;
    },
  };
}

/**
 * Embeddings over the OpenAI protocol. Texts are sorted by length into calls; a call that is refused as too large is
 * halved, and later calls are made as small as what went through. Retries belong to the callers.
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
      return { vectors: batch.flatMap(({ index }, place) => numbered(index, answer.vectors[place])), isWhole: true };
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
    // One long text says nothing about how much fits into a call; two halves that pass do.
    if (first.isWhole && second.isWhole) {
      const tokens = batch.reduce((sum, text) => sum + text.tokens, 0);
      limits = { texts: Math.min(limits.texts, middle), tokens: Math.min(limits.tokens, Math.ceil(tokens / 2)) };
    }
    return [...first.vectors, ...second.vectors];
  }

  async function embedInPieces({ text }: Text, caller: Caller): Promise<Float32Array> {
    const parts = [];
    for (const piece of splitInHalves(text)) {
      const weight = estimateTokens(piece);
      const { vectors } = await embedBatch([{ index: 0, text: piece, tokens: weight }], caller);
      for (const { vector } of vectors) parts.push({ vector, weight });
    }
    return poolVectors(parts);
  }

  async function embed(texts: readonly string[], options: EmbedOptions = {}): Promise<Float32Array[]> {
    const { isBulk = false, onVectors } = options;
    const failed = new AbortController();
    const signal = options.signal ? AbortSignal.any([options.signal, failed.signal]) : failed.signal;
    const measured = texts.map((text, index) => ({ index, text, tokens: estimateTokens(text) }));
    const batches = planBatches(
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

  return { model: embeddingSpace(model, dimensions ?? null), embed };
}

function numbered(index: number, vector: Float32Array | undefined): Numbered[] {
  return vector === undefined ? [] : [{ index, vector }];
}
