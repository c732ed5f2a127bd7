import { type ChunkSource, chunkDocument, type IndexedChunk } from '#src/domain/documents/chunk-document.ts';
import { semanticWindows } from '#src/domain/documents/chunking.ts';
import type { TokenCounter } from '#src/domain/text/tokens.ts';
import type { AnalyzeText } from '#src/domain/text/words.ts';

/** One question to a chunker as data, so that a thread can be asked it too. */
export type ChunkingTask =
  | { wanted: 'windows'; source: Pick<ChunkSource, 'body' | 'chunking'> }
  | { wanted: 'chunks'; source: ChunkSource; distances: readonly number[] };

export type ChunkingAnswer<Task extends ChunkingTask> = Task['wanted'] extends 'windows' ? string : IndexedChunk;

export function runChunkingTask(
  task: ChunkingTask,
  tools: { tokens: TokenCounter; analyze: AnalyzeText },
): Iterable<string | IndexedChunk> {
  if (task.wanted === 'chunks') return chunkDocument(task.source, task.distances, tools);
  const { method, ...size } = task.source.chunking;
  return method === 'semantic' ? semanticWindows(task.source.body, { method, ...size }, tools) : [];
}
