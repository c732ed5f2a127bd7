/** Worker thread that chunks one large document: gets a task as data, posts the results in batches, and ends. */
import { parentPort, workerData } from 'node:worker_threads';
import { type ChunkingTask, runChunkingTask } from './chunker.ts';
import { createTextAnalyzer } from './text-analyzer.ts';
import { createTokenCounter } from './token-counter.ts';

/**
 * Maximum number of results per message. Receiving a message of this size blocks the main thread for a few milliseconds
 * only.
 */
const itemsPerMessage = 100;

const task: ChunkingTask = workerData;
let batch: unknown[] = [];
for (const item of runChunkingTask(task, { tokens: createTokenCounter(), analyze: createTextAnalyzer() })) {
  batch.push(item);
  if (batch.length < itemsPerMessage) continue;
  parentPort?.postMessage(batch);
  batch = [];
}
parentPort?.postMessage(batch);
