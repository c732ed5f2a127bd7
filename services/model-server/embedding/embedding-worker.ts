import { parentPort, workerData } from 'node:worker_threads';
import type { ModelFolders } from '../model-files.ts';
import type { EmbeddingModel } from '../model-manifest.ts';
import { loadEncoder, SPECIAL_TOKENS } from './encoder.ts';

export type WorkerSettings = { model: EmbeddingModel; folders: ModelFolders };
export type WorkerTask =
  | { kind: 'embed'; text: string }
  | { kind: 'count'; texts: string[] }
  | { kind: 'match'; query: string; text: string };
export type WorkerMessage = WorkerTask | 'end';
export type WorkerReply =
  | { kind: 'loaded' }
  /** `sum` is the sum of the token vectors of all windows; `tokens` is their number. */
  | { kind: 'embedded'; sum: Float32Array<ArrayBuffer>; tokens: number }
  | { kind: 'counted'; tokens: number[] }
  /** `closeness` holds for each token of the query its best cosine with a token of the text. */
  | { kind: 'matched'; closeness: Float32Array<ArrayBuffer>; sum: Float32Array<ArrayBuffer>; tokens: number }
  | { kind: 'failed'; message: string };

// Registered before the model loads, so that `end` works during the load. It takes effect only between calls of
// onnxruntime, which must not be interrupted.
parentPort?.on('message', (message: WorkerMessage) => {
  if (message === 'end') process.exit();
});

const { model, folders }: WorkerSettings = workerData;
const { tokenIds, run } = await loadEncoder(model, folders);
/** Caches the query's vectors: all passages of a request are matched with the same query. */
let lastQuery: { text: string; vectors: Float32Array[] } | undefined;

parentPort?.on('message', async (task: WorkerMessage) => {
  if (task === 'end') return;
  try {
    reply(await work(task));
  } catch (error) {
    reply({ kind: 'failed', message: error instanceof Error ? error.message : String(error) });
  }
});
reply({ kind: 'loaded' });

async function work(task: WorkerTask): Promise<WorkerReply> {
  switch (task.kind) {
    case 'embed':
      return embed(task.text);
    case 'count':
      return { kind: 'counted', tokens: task.texts.map((text) => tokenIds(text).length) };
    case 'match':
      return match(task.query, task.text);
  }
}

async function embed(text: string): Promise<WorkerReply> {
  const sum = new Float32Array(model.dimensions);
  let tokens = 0;
  for (const window of windowsOf(text)) {
    const hidden = await run(window);
    const length = window.length + SPECIAL_TOKENS;
    if (model.pooling === 'mean') addTokens(sum, hidden);
    // Weighted by the number of tokens, so that a short last window does not count as much as a full one.
    else addScaled(sum, hidden.subarray(0, model.dimensions), length);
    tokens += length;
  }
  return { kind: 'embedded', sum, tokens };
}

function addTokens(sum: Float32Array, hidden: Float32Array): void {
  for (let start = 0; start < hidden.length; start += model.dimensions) {
    for (let dimension = 0; dimension < model.dimensions; dimension += 1) {
      sum[dimension] = (sum[dimension] ?? 0) + (hidden[start + dimension] ?? 0);
    }
  }
}

function addScaled(sum: Float32Array, vector: Float32Array, factor: number): void {
  for (let index = 0; index < vector.length; index += 1) {
    sum[index] = (sum[index] ?? 0) + factor * (vector[index] ?? 0);
  }
}

/**
 * Late interaction as in ColBERT (Khattab and Zaharia 2020), with token vectors of a model that was not trained for it.
 */
async function match(query: string, text: string): Promise<WorkerReply> {
  if (lastQuery?.text !== query) lastQuery = { text: query, vectors: (await tokenVectors(query)).vectors };
  const { vectors, sum, tokens } = await tokenVectors(text);
  const closeness = Float32Array.from(lastQuery.vectors, (ofQuery) =>
    vectors.reduce((best, ofText) => Math.max(best, dot(ofQuery, ofText)), -1),
  );
  return { kind: 'matched', closeness, sum, tokens };
}

/** Returns the normalized contextual vector of each token, without the special tokens. */
async function tokenVectors(text: string) {
  const vectors: Float32Array[] = [];
  const sum = new Float32Array(model.dimensions);
  let tokens = 0;
  for (const window of windowsOf(text)) {
    const hidden = await run(window);
    addTokens(sum, hidden);
    tokens += window.length + SPECIAL_TOKENS;
    for (let token = 1; token <= window.length; token += 1) {
      const vector = hidden.subarray(token * model.dimensions, (token + 1) * model.dimensions);
      const length = Math.sqrt(dot(vector, vector));
      vectors.push(vector.map((value) => value / length));
    }
  }
  return { vectors, sum, tokens };
}

function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let index = 0; index < a.length; index += 1) sum += (a[index] ?? 0) * (b[index] ?? 0);
  return sum;
}

/**
 * Splits the tokens of a text into windows of equal length, so that the last window is not one word without context.
 * Where the model needs a prefix, each window has it.
 */
function windowsOf(text: string): number[][] {
  const { prefix, rest } = splitPrefix(text);
  const [prefixIds, ids] = [tokenIds(prefix), tokenIds(rest)];
  const count = Math.max(1, Math.ceil(ids.length / (model.windowTokens - SPECIAL_TOKENS - prefixIds.length)));
  const length = Math.ceil(ids.length / count);
  return Array.from({ length: count }, (_, index) => [
    ...prefixIds,
    ...ids.slice(index * length, (index + 1) * length),
  ]);
}

function splitPrefix(text: string): { prefix: string; rest: string } {
  const { passagePrefix, queryPrefix } = model;
  if (passagePrefix === undefined) return { prefix: '', rest: text };
  if (queryPrefix === undefined || !text.startsWith(queryPrefix)) return { prefix: passagePrefix, rest: text };
  return { prefix: queryPrefix, rest: text.slice(queryPrefix.length) };
}

function reply(message: WorkerReply): void {
  parentPort?.postMessage(message, message.kind === 'embedded' ? [message.sum.buffer] : []);
}
