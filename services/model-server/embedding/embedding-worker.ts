import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { Tokenizer } from '@huggingface/tokenizers';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { WrongContentError } from '../model-files.ts';
import type { EmbeddingModel, ModelFile } from '../model-manifest.ts';
import { integerKernelOptions } from './integer-kernels.ts';
import { quantizeGraph } from './quantized-graph.ts';

export type WorkerSettings = { model: EmbeddingModel; graphPath: string; tokenizerPath: string };
export type WorkerTask =
  | { kind: 'embed'; text: string }
  | { kind: 'count'; texts: string[] }
  | { kind: 'match'; query: string; text: string };
/** `end` ends the thread as soon as the engine lets go of it. */
export type WorkerMessage = WorkerTask | 'end';
export type WorkerReply =
  | { kind: 'loaded' }
  /** `sum`: the token vectors added up over all windows; `tokens`: how many of them. */
  | { kind: 'embedded'; sum: Float32Array<ArrayBuffer>; tokens: number }
  | { kind: 'counted'; tokens: number[] }
  /** `closeness`: for each token of the query the best cosine that a token of the text has with it. */
  | { kind: 'matched'; closeness: Float32Array<ArrayBuffer>; sum: Float32Array<ArrayBuffer>; tokens: number }
  | { kind: 'failed'; message: string };

const SPECIAL_TOKENS = 2;

// From the beginning, also while it loads: between two calls of the engine, which is never left amid one.
parentPort?.on('message', (message: WorkerMessage) => {
  if (message === 'end') process.exit();
});

const { model, graphPath, tokenizerPath }: WorkerSettings = workerData;
const [session, tokenizer] = await Promise.all([loadSession(), loadTokenizer()]);
const [start, end] = ['[CLS]', '[SEP]'].map((token) => tokenizer.token_to_id(token));
if (start === undefined || end === undefined) throw new Error('The tokenizer has no [CLS] and [SEP].');
/** All passages of a request are matched with one query. */
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
  for (const window of windowsOf(tokenIds(text))) {
    const hidden = await run(window);
    const length = window.length + SPECIAL_TOKENS;
    if (model.pooling === 'mean') addTokens(sum, hidden);
    // As many times as it has tokens, so that each window weighs as much as it says.
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

/** Late interaction as in ColBERT (Khattab and Zaharia 2020), over the token vectors of a model not trained for it. */
async function match(query: string, text: string): Promise<WorkerReply> {
  if (lastQuery?.text !== query) lastQuery = { text: query, vectors: (await tokenVectors(query)).vectors };
  const { vectors, sum, tokens } = await tokenVectors(text);
  const closeness = Float32Array.from(lastQuery.vectors, (ofQuery) =>
    vectors.reduce((best, ofText) => Math.max(best, dot(ofQuery, ofText)), -1),
  );
  return { kind: 'matched', closeness, sum, tokens };
}

/** `vectors`: the unit vector of each token in its context, without those of the special tokens, which say nothing. */
async function tokenVectors(text: string) {
  const vectors: Float32Array[] = [];
  const sum = new Float32Array(model.dimensions);
  let tokens = 0;
  for (const window of windowsOf(tokenIds(text))) {
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

/** Windows of even length, so that the last one is not a lonely word without context. */
function windowsOf(ids: number[]): number[][] {
  const count = Math.max(1, Math.ceil(ids.length / (model.windowTokens - SPECIAL_TOKENS)));
  const length = Math.ceil(ids.length / count);
  return Array.from({ length: count }, (_, index) => ids.slice(index * length, (index + 1) * length));
}

/** One text at a time: a batch would pad every text to the longest, and one core gains nothing by it. */
async function run(ids: number[]): Promise<Float32Array> {
  const input = BigInt64Array.from([start, ...ids, end], BigInt);
  const shape = [1, input.length];
  const output = await session.run({
    input_ids: new Tensor('int64', input, shape),
    attention_mask: new Tensor('int64', new BigInt64Array(input.length).fill(1n), shape),
    token_type_ids: new Tensor('int64', new BigInt64Array(input.length), shape),
  });
  const hidden = output.last_hidden_state?.data;
  if (!(hidden instanceof Float32Array)) throw new Error('The embedding model gave no last_hidden_state.');
  return hidden;
}

function tokenIds(text: string): number[] {
  return tokenizer.encode(text, { add_special_tokens: false }).ids;
}

async function loadSession(): Promise<InferenceSession> {
  const { model: graph } = quantizeGraph(await readPinned(model.graph, graphPath), model.precision);
  return InferenceSession.create(graph, {
    // The pool has one worker a core: more threads inside a session would only fight each other.
    intraOpNumThreads: 1,
    interOpNumThreads: 1,
    logSeverityLevel: 3,
    ...(await integerKernelOptions()),
  });
}

async function loadTokenizer(): Promise<Tokenizer> {
  const tokenizerJson = JSON.parse((await readPinned(model.tokenizer, tokenizerPath)).toString('utf8'));
  // Without its special tokens a text that says "[SEP]" is read as these characters, not as an end mark.
  return new Tokenizer({ ...tokenizerJson, added_tokens: [] }, {});
}

async function readPinned({ sha256 }: ModelFile, path: string): Promise<Buffer<ArrayBuffer>> {
  const bytes = await readFile(path);
  if (createHash('sha256').update(bytes).digest('hex') !== sha256) throw new WrongContentError(path);
  return bytes;
}

function reply(message: WorkerReply): void {
  parentPort?.postMessage(message, message.kind === 'embedded' ? [message.sum.buffer] : []);
}
