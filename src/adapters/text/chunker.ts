import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { TokenCounter } from '#src/domain/text/tokens.ts';
import type { AnalyzeText } from '#src/domain/text/words.ts';
import { appError } from '#src/errors.ts';
import type { Chunker, ChunkerOptions } from '#src/ports/documents.ts';
import { createFairQueue } from '../fair-queue.ts';
import { type ChunkingAnswer, type ChunkingTask, runChunkingTask } from './chunking-task.ts';

/** In UTF-16 units: less than a tenth of a second of work, and no more than it takes to start a thread. */
const inlineLength = 100_000;

/** Twice what the longest body that a converter lets through was measured to need. */
const threadHeapMiB = 1_024;

/** Five hours of a slow embedder, and what one process can hold; more comes of a tiny target for a very large text. */
const maxAnswers = 200_000;

/** One at a time: a second one would double the memory, and leave the core that answers requests less. */
const maxThreads = 1;

/** Of one document: the largest that a converter lets through takes a minute on a machine that has nothing else to do. */
const threadTimeoutMs = 300_000;

/** Usual documents wait a second. A step that waits longer ends and is tried again: others get its place in the worker. */
const turnTimeoutMs = 10_000;
const tryAgainSeconds = 5;

/** Cuts small documents at once and large ones in a thread, which takes their memory along when it ends. */
export function createChunker(deps: {
  tokens: TokenCounter;
  analyze: AnalyzeText;
  /** How long a document waits for its turn, and how long it may be cut. */
  timeouts?: { turnMs: number; threadMs: number };
}): Chunker {
  const { timeouts = { turnMs: turnTimeoutMs, threadMs: threadTimeoutMs } } = deps;
  const queue = createFairQueue(maxThreads);

  /** Throws `rate_limited` when its turn does not come in time. */
  async function inTurn<Result>(orgId: string, work: () => Promise<Result>): Promise<Result> {
    const late = Promise.withResolvers<never>();
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      const detail = 'Other large documents are being cut into chunks.';
      late.reject(appError('rate_limited', { detail, retryAfterSeconds: tryAgainSeconds }));
    }, timeouts.turnMs);
    const turn = queue(orgId, async () => {
      clearTimeout(timer);
      return isLate ? late.promise : work();
    });
    return Promise.race([turn, late.promise]);
  }

  async function run<Task extends ChunkingTask>(
    task: Task,
    { orgId, signal }: ChunkerOptions,
  ): Promise<ChunkingAnswer<Task>[]> {
    const answers: unknown[] =
      task.source.body.length <= inlineLength
        ? [...runChunkingTask(task, deps)]
        : await inTurn(orgId, () => runInThread(task, signal, timeouts.threadMs));
    return answers as ChunkingAnswer<Task>[];
  }

  return {
    windows: async ({ body, chunking }, by) =>
      chunking.method === 'semantic' ? run({ wanted: 'windows', source: { body, chunking } }, by) : [],
    chunk: (source, distances, by) => run({ wanted: 'chunks', source, distances }, by),
  };
}

async function runInThread(task: ChunkingTask, signal: AbortSignal, timeoutMs: number): Promise<unknown[]> {
  signal.throwIfAborted();
  const thread = new Worker(new URL('./chunking-thread.ts', import.meta.url), {
    workerData: task,
    resourceLimits: { maxOldGenerationSizeMb: threadHeapMiB },
  });
  const stop = () => void thread.terminate();
  signal.addEventListener('abort', stop);
  let isTooSlow = false;
  const timeout = setTimeout(() => {
    isTooSlow = true;
    stop();
  }, timeoutMs);
  const answers: unknown[] = [];
  thread.on('message', (batch: unknown[]) => {
    if (answers.length > maxAnswers) return;
    answers.push(...batch);
    if (answers.length > maxAnswers) stop();
  });
  try {
    const [exitCode] = await once(thread, 'exit');
    signal.throwIfAborted();
    if (answers.length > maxAnswers) {
      throw appError('too_large', {
        detail: 'The text has too many parts: split it, or take a larger `target_tokens`.',
      });
    }
    if (isTooSlow) {
      throw appError('conversion_timeout', {
        detail: `The text was not cut into chunks within ${Math.round(timeoutMs / 1_000)} seconds.`,
      });
    }
    if (exitCode !== 0) throw new Error(`The chunking thread ended with exit code ${exitCode}.`);
    return answers;
  } catch (error) {
    if (!hasCode(error, 'ERR_WORKER_OUT_OF_MEMORY')) throw error;
    throw appError('too_large', { detail: 'Cutting the text takes more memory than is allowed.', cause: error });
  } finally {
    clearTimeout(timeout);
    signal.removeEventListener('abort', stop);
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
