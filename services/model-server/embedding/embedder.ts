import { Worker } from 'node:worker_threads';
import type { Logger } from 'pino';
import type { ModelFolders } from '../model-files.ts';
import type { EmbeddingModel } from '../model-manifest.ts';
import { OpenAiError } from '../openai-error.ts';
import { splitAtSpaces } from '../split-at-spaces.ts';
import type { WorkerMessage, WorkerReply, WorkerSettings, WorkerTask } from './embedding-worker.ts';

export type Embedding = {
  vector: Float32Array;
  /** Tokens computed, including the special tokens of every window. */
  tokens: number;
};

/**
 * `closeness` is the late-interaction score: the mean over the query's tokens of the best cosine with a token of the
 * text, raised to the power SHARPNESS.
 */
export type Match = Embedding & { closeness: number };

/**
 * An embedding model in worker threads. Requests may be made before the model is loaded. An aborted signal drops tasks
 * that have not started.
 */
export type Embedder = {
  embed(texts: string[], signal: AbortSignal): Promise<Embedding[]>;
  /** Counts each text's tokens with the embedding model's tokenizer, without special tokens. */
  countTokens(texts: string[], signal: AbortSignal): Promise<number[]>;
  match(query: string, texts: string[], signal: AbortSignal): Promise<Match[]>;
  close(): Promise<void>;
};

export type EmbedderSettings = {
  model: EmbeddingModel;
  folders: ModelFolders;
  threads: number;
  log: Logger;
  /**
   * Called once, after all workers have ended, if a model file is missing or has the wrong checksum, or if a worker
   * died. Every later request fails.
   */
  onFailure: (error: Error) => void;
};

/**
 * Longest text that is queued as one task; longer texts are split. It takes about 0.1 s (1,000 tokens; four times that
 * in dense text), which bounds how long a small request waits for a free worker.
 */
const MAX_TASK_CHARACTERS = 4_000;
/**
 * Requests up to this size count as interactive: a question with its candidate sentences is smaller, a batch of chunks
 * to index is larger.
 */
const MAX_INTERACTIVE_CHARACTERS = 16_000;

/** Exponent of cosines in the late-interaction score: one exact token match must outweigh several near ones. */
const SHARPNESS = 6;

type Job = {
  task: WorkerTask;
  characters: number;
  signal: AbortSignal;
  resolve: (reply: WorkerReply) => void;
  reject: (error: Error) => void;
};

/** Creates a pool of worker threads with one model each, so that the HTTP thread computes nothing. */
export function createEmbedder({ model, folders, threads, log, onFailure }: EmbedderSettings): Embedder {
  const interactive: Job[] = [];
  const bulk: Job[] = [];
  const idle: Worker[] = [];
  const running = new Map<Worker, Job>();
  let failure: Error | undefined;

  const workerData: WorkerSettings = { model, folders };
  const workers = Array.from({ length: threads }, () => {
    const worker = new Worker(new URL('./embedding-worker.ts', import.meta.url), { workerData });
    worker.on('message', (reply: WorkerReply) => {
      if (reply.kind === 'loaded') log.info({ model: model.id }, 'model loaded');
      else settle(worker, reply);
      idle.push(worker);
      startNext();
    });
    worker.on('error', (error) => {
      // The first failure ends all workers: the others would only hold the model in memory.
      if (failure) return;
      failAll(new OpenAiError(503, 'The embedding model failed to load or crashed; see the log of the model server.'));
      void endWorkers().then(() => onFailure(error));
    });
    return { thread: worker, ended: new Promise((resolve) => worker.once('exit', resolve)) };
  });

  function settle(worker: Worker, reply: WorkerReply): void {
    const job = running.get(worker);
    running.delete(worker);
    if (reply.kind === 'failed') job?.reject(new Error(reply.message));
    else job?.resolve(reply);
  }

  function startNext(): void {
    while (idle.length > 0) {
      const job = interactive.shift() ?? bulk.shift();
      if (!job) return;
      const worker = job.signal.aborted ? undefined : idle.pop();
      if (worker) {
        running.set(worker, job);
        worker.postMessage(job.task);
      } else {
        job.reject(abortedError());
      }
    }
  }

  function failAll(error: Error): void {
    failure ??= error;
    for (const job of [...running.values(), ...interactive.splice(0), ...bulk.splice(0)]) job.reject(failure);
    running.clear();
  }

  /**
   * Asks the workers to end and waits. Terminating a thread inside onnxruntime, for instance while it loads, aborts the
   * whole process.
   */
  async function endWorkers(): Promise<void> {
    for (const { thread } of workers) thread.postMessage('end' satisfies WorkerMessage);
    await Promise.all(workers.map(({ ended }) => ended));
  }

  /** Queues large requests in order of arrival. Small requests go before them, the smallest first. */
  function enqueue(task: WorkerTask, characters: number, signal: AbortSignal): Promise<WorkerReply> {
    if (failure) return Promise.reject(failure);
    return new Promise((resolve, reject) => {
      const job = { task, characters, signal, resolve, reject };
      if (characters > MAX_INTERACTIVE_CHARACTERS) {
        bulk.push(job);
        return;
      }
      const place = interactive.findIndex((other) => other.characters > characters);
      interactive.splice(place < 0 ? interactive.length : place, 0, job);
    });
  }

  async function embed(texts: string[], signal: AbortSignal): Promise<Embedding[]> {
    const characters = lengthOf(texts);
    const embeddings = texts.map(async (text) => {
      const pieces = splitAtSpaces(text, MAX_TASK_CHARACTERS);
      const replies = pieces.map((piece) => enqueue({ kind: 'embed', text: piece }, characters, signal));
      return pool(await Promise.all(replies), model.dimensions);
    });
    startNext();
    return Promise.all(embeddings);
  }

  async function match(query: string, texts: string[], signal: AbortSignal): Promise<Match[]> {
    // Late interaction is always interactive: a user waits for the search, however many candidates it has.
    const characters = Math.min(lengthOf(texts), MAX_INTERACTIVE_CHARACTERS);
    const matches = texts.map(async (text) => {
      const pieces = splitAtSpaces(text, MAX_TASK_CHARACTERS);
      const tasks = pieces.map((piece) => enqueue({ kind: 'match', query, text: piece }, characters, signal));
      const replies = await Promise.all(tasks);
      return { ...pool(replies, model.dimensions), closeness: closenessOf(replies) };
    });
    startNext();
    return Promise.all(matches);
  }

  async function countTokens(texts: string[], signal: AbortSignal): Promise<number[]> {
    const counted = enqueue({ kind: 'count', texts }, 0, signal);
    startNext();
    const reply = await counted;
    return reply.kind === 'counted' ? reply.tokens : [];
  }

  return {
    embed,
    match,
    countTokens,
    async close() {
      failAll(new OpenAiError(503, 'The model server is shutting down.'));
      await endWorkers();
    },
  };
}

function lengthOf(texts: readonly string[]): number {
  return texts.reduce((total, text) => total + text.length, 0);
}

/** Mean pooling: averages the token vectors of all windows of a text and normalizes the result. */
function pool(replies: WorkerReply[], dimensions: number): Embedding {
  const sum = new Float32Array(dimensions);
  let tokens = 0;
  for (const reply of replies) {
    if (!('sum' in reply)) continue;
    reply.sum.forEach((value, dimension) => {
      sum[dimension] = (sum[dimension] ?? 0) + value;
    });
    tokens += reply.tokens;
  }
  const length = Math.hypot(...sum);
  return { vector: sum.map((value) => value / length), tokens };
}

/** For a text in several pieces, each query token counts with its best piece. */
function closenessOf(replies: WorkerReply[]): number {
  const matched = replies.filter((reply) => reply.kind === 'matched');
  const queryTokens = matched[0]?.closeness.length ?? 0;
  let sum = 0;
  for (let token = 0; token < queryTokens; token += 1) {
    const best = Math.max(0, ...matched.map(({ closeness }) => closeness[token] ?? 0));
    sum += best ** SHARPNESS;
  }
  return queryTokens > 0 ? sum / queryTokens : 0;
}

function abortedError(): Error {
  return new DOMException('The client went away.', 'AbortError');
}
