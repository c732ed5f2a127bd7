import { Worker } from 'node:worker_threads';
import type { Logger } from 'pino';
import { findModelFile, type ModelFolders } from '../model-files.ts';
import type { EmbeddingModel } from '../model-manifest.ts';
import { OpenAiError } from '../openai-error.ts';
import { splitAtSpaces } from '../split-at-spaces.ts';
import type { WorkerMessage, WorkerReply, WorkerSettings, WorkerTask } from './embedding-worker.ts';

export type Embedding = {
  /** Unit length. */
  vector: Float32Array;
  /** Tokens computed, the special ones of every window included. */
  tokens: number;
};

/** `closeness`: the mean over the query's tokens of the best cosine that a token of the text has, sharpened. */
export type Match = Embedding & { closeness: number };

/** Requests may come before the model is loaded: they wait. A signal drops what has not begun. */
export type Embedder = {
  /** In the order of `texts`. */
  embed(texts: string[], signal: AbortSignal): Promise<Embedding[]>;
  /** Tokens of each text in the embedding model's tokenizer, without special ones. */
  countTokens(texts: string[], signal: AbortSignal): Promise<number[]>;
  /** The embeddings of texts, and how close each is to a query by late interaction. */
  match(query: string, texts: string[], signal: AbortSignal): Promise<Match[]>;
  /** Fails what waits and ends the workers. */
  close(): Promise<void>;
};

export type EmbedderSettings = {
  model: EmbeddingModel;
  folders: ModelFolders;
  threads: number;
  log: Logger;
  /**
   * Called once, when all workers have ended, where a model file is missing or not the pinned one, or a worker died:
   * every request fails from then on.
   */
  onFailure: (error: Error) => void;
};

/**
 * About 1,000 tokens, a tenth of a second, and four times that in the densest text: the longest that a small request
 * waits for a free worker while a big one is served, because a longer text is queued in pieces of this size.
 */
const MAX_TASK_CHARACTERS = 4_000;
/** A question with its candidate sentences is below it, a batch of chunks to index above. */
const MAX_INTERACTIVE_CHARACTERS = 16_000;

/** The power to which cosines are raised: a token that is there says more than several that only come near. */
const SHARPNESS = 6;

type Job = {
  task: WorkerTask;
  /** Of its whole request. */
  characters: number;
  signal: AbortSignal;
  resolve: (reply: WorkerReply) => void;
  reject: (error: Error) => void;
};

/** A pool of worker threads with one model each: nothing is computed on the thread that serves HTTP. */
export function createEmbedder({ model, folders, threads, log, onFailure }: EmbedderSettings): Embedder {
  const interactive: Job[] = [];
  const bulk: Job[] = [];
  const idle: Worker[] = [];
  const running = new Map<Worker, Job>();
  let failure: Error | undefined;

  const workerData: WorkerSettings = {
    model,
    graphPath: findModelFile(model.graph, folders) ?? model.graph.name,
    tokenizerPath: findModelFile(model.tokenizer, folders) ?? model.tokenizer.name,
  };
  const workers = Array.from({ length: threads }, () => {
    const worker = new Worker(new URL('./embedding-worker.ts', import.meta.url), { workerData });
    worker.on('message', (reply: WorkerReply) => {
      if (reply.kind === 'loaded') log.info({ model: model.id }, 'model loaded');
      else settle(worker, reply);
      idle.push(worker);
      startNext();
    });
    worker.on('error', (error) => {
      // Once for all: the other workers would keep the model in memory for nobody.
      if (failure) return;
      failAll(new OpenAiError(503, 'The embedding model cannot be used; the log says why.'));
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

  /** Asks, and waits: a thread that is terminated inside the engine, as while it loads, aborts the whole process. */
  async function endWorkers(): Promise<void> {
    for (const { thread } of workers) thread.postMessage('end' satisfies WorkerMessage);
    await Promise.all(workers.map(({ ended }) => ended));
  }

  /** Large requests wait in line. Of small ones the smallest comes first: a question waits for no message or reply. */
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
    // Somebody waits for it, however many candidates there are.
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

/** The mean over the tokens of all windows of a text, scaled to unit length. */
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

/** A long text fits a token of the query as well as the best of its pieces does. */
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
