/** Worker thread that chunks large documents, one after the other: gets tasks, and posts the results in batches. */
import { parentPort } from 'node:worker_threads';
import { type ChunkingTask, runChunkingTask } from './chunker.ts';
import { createTextAnalyzer } from './text-analyzer.ts';
import { createTokenCounter } from './token-counter.ts';

/**
 * Maximum number of results per message. Receiving a message of this size blocks the main thread for a few milliseconds
 * only.
 */
const itemsPerMessage = 100;

const tools = { tokens: createTokenCounter(), analyze: createTextAnalyzer() };

parentPort?.on('message', (task: ChunkingTask) => {
  let batch: unknown[] = [];
  for (const item of runChunkingTask(task, tools)) {
    batch.push(item);
    if (batch.length < itemsPerMessage) continue;
    parentPort?.postMessage({ batch, isLast: false });
    batch = [];
  }
  parentPort?.postMessage({ batch, isLast: true });
});
