import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import { Tokenizer } from '@huggingface/tokenizers';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import type { EmbeddingModel, PinnedFile } from '../model-manifest.ts';
import { quantizeGraph } from './quantized-graph.ts';

export type WorkerSettings = { toolsDir: string; model: EmbeddingModel };
export type WorkerTask = { kind: 'embed'; text: string } | { kind: 'count'; texts: string[] };
export type WorkerReply =
  | { kind: 'loaded' }
  /** `sum`: the token vectors added up over all windows; `tokens`: how many of them. */
  | { kind: 'embedded'; sum: Float32Array<ArrayBuffer>; tokens: number }
  | { kind: 'counted'; tokens: number[] }
  | { kind: 'failed'; message: string };

const SPECIAL_TOKENS = 2;

const { toolsDir, model }: WorkerSettings = workerData;
const [session, tokenizer] = await Promise.all([loadSession(), loadTokenizer()]);
const [start, end] = ['[CLS]', '[SEP]'].map((token) => tokenizer.token_to_id(token));
if (start === undefined || end === undefined) throw new Error('The tokenizer has no [CLS] and [SEP].');

parentPort?.on('message', async (task: WorkerTask) => {
  try {
    if (task.kind === 'count') reply({ kind: 'counted', tokens: task.texts.map((text) => tokenIds(text).length) });
    else reply(await embed(task.text));
  } catch (error) {
    reply({ kind: 'failed', message: error instanceof Error ? error.message : String(error) });
  }
});
reply({ kind: 'loaded' });

async function embed(text: string): Promise<WorkerReply> {
  const sum = new Float32Array(model.dimensions);
  let tokens = 0;
  for (const window of windowsOf(tokenIds(text))) {
    const hidden = await run(window);
    for (let index = 0; index < hidden.length; index += 1) {
      const dimension = index % model.dimensions;
      sum[dimension] = (sum[dimension] ?? 0) + (hidden[index] ?? 0);
    }
    tokens += window.length + SPECIAL_TOKENS;
  }
  return { kind: 'embedded', sum, tokens };
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
  const { model: graph } = quantizeGraph(await readPinned(model.graph));
  return InferenceSession.create(graph, {
    // The pool has one worker a core: more threads inside a session would only fight each other.
    intraOpNumThreads: 1,
    interOpNumThreads: 1,
    logSeverityLevel: 3,
    // x86 without VNNI adds int8 products in 16 bits, which overflow; this takes slower exact kernels there only.
    extra: { session: { x64quantprecision: '1' } },
  });
}

async function loadTokenizer(): Promise<Tokenizer> {
  const tokenizerJson = JSON.parse((await readPinned(model.tokenizer)).toString('utf8'));
  // Without its special tokens a text that says "[SEP]" is read as these characters, not as an end mark.
  return new Tokenizer({ ...tokenizerJson, added_tokens: [] }, {});
}

async function readPinned({ path, sha256 }: PinnedFile): Promise<Buffer<ArrayBuffer>> {
  const file = join(toolsDir, path);
  const bytes = await readFile(file);
  if (createHash('sha256').update(bytes).digest('hex') !== sha256) {
    throw new Error(`${file} is not the file that the manifest pins: its SHA-256 differs.`);
  }
  return bytes;
}

function reply(message: WorkerReply): void {
  parentPort?.postMessage(message, message.kind === 'embedded' ? [message.sum.buffer] : []);
}
