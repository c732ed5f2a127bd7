import { Worker } from 'node:worker_threads';
import { type ChunkingInput, chunkDocument, type IndexedChunk } from '#src/domain/documents/chunk-document.ts';
import { windowsForSemanticChunking } from '#src/domain/documents/chunking.ts';
import type { TokenCounter } from '#src/domain/text/tokens.ts';
import type { TextAnalyzer } from '#src/domain/text/words.ts';
import { appError } from '#src/errors.ts';
import type { Chunker, ChunkerOptions } from '#src/ports/documents.ts';
import { createFairWorkQueue } from '../limits.ts';

/**
 * Documents with fewer UTF-16 units are chunked on the main thread: that takes up to 0.1 s, which is as long as
 * starting a thread.
 */
const inlineLength = 100_000;

/** Heap limit of the chunking thread: twice the measured need of the longest possible document. */
const threadHeapMiB = 1_024;

/**
 * Maximum chunks or windows per document: a process can hold this many, and a slow embedder needs five hours for them.
 */
const maxAnswers = 200_000;

/** Maximum number of chunking threads: a second one would double the memory and take CPU time from requests. */
const maxThreads = 1;

/** Timeout for chunking one document; the largest possible one takes a minute on an idle machine. */
const threadTimeoutMs = 300_000;

/** Maximum wait for a free chunking thread. Then the activity fails and frees its worker slot for other work. */
const queueTimeoutMs = 10_000;
const retryAfterSeconds = 5;

/** How long the thread waits for another document before it ends and frees its memory. */
const threadIdleMs = 10_000;

/** Chunks small documents at once and large ones in a thread. */
export function createChunker(deps: {
  tokens: TokenCounter;
  analyze: TextAnalyzer;
  timeouts?: { queueMs: number; threadMs: number };
}): Chunker {
  const { timeouts = { queueMs: queueTimeoutMs, threadMs: threadTimeoutMs } } = deps;
  const queue = createFairWorkQueue(maxThreads);
  const threads = createChunkingThreads(timeouts.threadMs);

  async function inTurn<Result>(orgId: string, work: () => Promise<Result>): Promise<Result> {
    const late = Promise.withResolvers<never>();
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      const detail = 'The chunking thread is busy with other large documents.';
      late.reject(appError('rate_limited', { detail, retryAfterSeconds }));
    }, timeouts.queueMs);
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
        : await inTurn(orgId, () => threads(task, signal));
    return answers as ChunkingAnswer<Task>[];
  }

  return {
    windows: async ({ body, chunking }, by) =>
      chunking.method === 'semantic' ? run({ wanted: 'windows', source: { body, chunking } }, by) : [],
    chunk: (source, distances, by) => run({ wanted: 'chunks', source, distances }, by),
  };
}

type ThreadMessage = { batch: unknown[]; isLast: boolean };

/** Runs tasks in a thread that stays for the next one, because loading the tokenizer takes a quarter of a second. */
function createChunkingThreads(timeoutMs: number) {
  let idle: { thread: Worker; timer: NodeJS.Timeout } | undefined;

  function takeThread(): Worker {
    if (idle !== undefined) {
      const { thread } = idle;
      forgetIdle();
      thread.ref();
      return thread;
    }
    const thread = new Worker(new URL('./chunking-thread.ts', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: threadHeapMiB },
    });
    // An error between two tasks is no error of a document.
    thread.on('error', () => undefined).once('exit', () => idle?.thread === thread && forgetIdle());
    return thread;
  }

  function forgetIdle(): void {
    clearTimeout(idle?.timer);
    idle = undefined;
  }

  function keep(thread: Worker): void {
    thread.unref();
    const timer = setTimeout(() => {
      forgetIdle();
      void thread.terminate();
    }, threadIdleMs);
    idle = { thread, timer: timer.unref() };
  }

  return async function run(task: ChunkingTask, signal: AbortSignal): Promise<unknown[]> {
    signal.throwIfAborted();
    const thread = takeThread();
    const end = Promise.withResolvers<void>();
    const answers: unknown[] = [];
    const receive = ({ batch, isLast }: ThreadMessage) => {
      answers.push(...batch);
      if (answers.length > maxAnswers) {
        const detail = `The text has more than ${maxAnswers} chunks. Split the document, or use a larger \`target_tokens\`.`;
        end.reject(appError('too_large', { detail }));
      } else if (isLast) end.resolve();
    };
    const onError = (cause: unknown) =>
      end.reject(
        hasCode(cause, 'ERR_WORKER_OUT_OF_MEMORY')
          ? appError('too_large', { detail: 'Chunking the text exceeds the memory limit.', cause })
          : cause,
      );
    const onExit = (code: number) => end.reject(new Error(`The chunking thread ended with exit code ${code}.`));
    const onAbort = () => end.reject(signal.reason);
    const timeout = setTimeout(() => {
      const detail = `The text was not chunked within ${Math.round(timeoutMs / 1_000)} seconds.`;
      end.reject(appError('conversion_timeout', { detail }));
    }, timeoutMs);
    thread.on('message', receive).on('error', onError).on('exit', onExit);
    signal.addEventListener('abort', onAbort);
    try {
      thread.postMessage(task);
      await end.promise;
      keep(thread);
      return answers;
    } catch (error) {
      await thread.terminate();
      throw error;
    } finally {
      clearTimeout(timeout);
      signal.removeEventListener('abort', onAbort);
      thread.off('message', receive).off('error', onError).off('exit', onExit);
    }
  };
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

export type ChunkingTask =
  | { wanted: 'windows'; source: Pick<ChunkingInput, 'body' | 'chunking'> }
  | { wanted: 'chunks'; source: ChunkingInput; distances: readonly number[] };

type ChunkingAnswer<Task extends ChunkingTask> = Task['wanted'] extends 'windows' ? string : IndexedChunk;

export function runChunkingTask(
  task: ChunkingTask,
  tools: { tokens: TokenCounter; analyze: TextAnalyzer },
): Iterable<string | IndexedChunk> {
  if (task.wanted === 'chunks') return chunkDocument(task.source, task.distances, tools);
  const { method, ...size } = task.source.chunking;
  return method === 'semantic' ? windowsForSemanticChunking(task.source.body, { method, ...size }, tools) : [];
}
