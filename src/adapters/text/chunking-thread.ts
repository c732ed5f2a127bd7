/** The thread in which a large document is cut: takes its task as data, answers in batches, and ends. */
import { parentPort, workerData } from 'node:worker_threads';
import { type ChunkingTask, runChunkingTask } from './chunking-task.ts';
import { createTextAnalyzer } from './text-analyzer.ts';
import { createTokenCounter } from './token-counter.ts';

/** Copying one batch holds the receiving process up for some milliseconds only. */
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
