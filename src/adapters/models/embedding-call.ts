import { isRecord } from '#src/adapters/provider-json.ts';
import { toUnitLength } from '#src/domain/documents/embedding.ts';
import { type AppError, appError } from '#src/errors.ts';
import { limitedFetch } from './limited-fetch.ts';
import { createOpenAiClient, type Endpoint, maxAnswerBytes } from './openai-client.ts';
import { createModelErrors, isTooLarge } from './openai-errors.ts';

/** 64 texts of 8,192 tokens, the largest chunks allowed, on two slow cores. */
const callTimeoutMs = 5 * 60_000;
const bytesOfFloat = 4;
/** Of one vector in an answer: 5,000 numbers written out. */
const maxVectorBytes = 128 * 1024;

/** A vector for each text, or why the call was refused as too large. */
export type EmbeddingAnswer = { vectors: Float32Array[] } | { tooLarge: unknown };

export type EmbeddingCall = (texts: readonly string[], signal: AbortSignal | undefined) => Promise<EmbeddingAnswer>;

/**
 * One call of the Embeddings endpoint. An answer of another model, or with vectors of another size than asked for (or
 * than came before), is refused: such vectors could not be compared with those that are stored.
 */
export function createEmbeddingCall(
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
    // Which of two answers was the wrong one, nobody can tell: the next one decides.
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
