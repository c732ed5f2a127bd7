import type { ChunkSource, IndexedChunk } from '#src/domain/chunk-document.ts';
import type { RagConfig } from '#src/domain/rag-config.ts';
import { subjectDistance } from '#src/domain/semantic-chunking.ts';
import type { EmbeddingsService } from '#src/modules/embeddings/embeddings.service.ts';
import type { Chunker } from '#src/ports/chunker.ts';
import type { ChunkContextsService, ConvertedBody } from './chunk-contexts.service.ts';

/** Windows that are embedded before the engine hears how far the step is. */
const BATCH_SIZE = 256;

/** A converted document with what decides how it is cut. */
export type CutSource = ConvertedBody & Pick<ChunkSource, 'documentName' | 'pageMap'> & { ragConfig: RagConfig };

type Step = { signal: AbortSignal; report: (details: unknown) => void };

/** Cuts documents; the same source gives the same chunks. */
export function createDocumentCutter(deps: {
  chunker: Chunker;
  embeddings: Pick<EmbeddingsService, 'embed'>;
  contexts: Pick<ChunkContextsService, 'find'>;
}) {
  const { chunker, embeddings, contexts } = deps;

  /** Of each window to the next. A run that is interrupted finds those that it had in the organization's cache. */
  async function distancesOf({ orgId, ragConfig, body }: CutSource, { signal, report }: Step): Promise<number[]> {
    const windows = await chunker.windows({ body, chunking: ragConfig.chunking }, signal);
    const space = { orgId, model: ragConfig.embedding.model };
    const distances: number[] = [];
    let before: Float32Array | undefined;
    for (let start = 0; start < windows.length; start += BATCH_SIZE) {
      for (const vector of await embeddings.embed(space, windows.slice(start, start + BATCH_SIZE), { signal })) {
        if (before !== undefined) distances.push(subjectDistance(before, vector));
        before = vector;
      }
      report({ windowsEmbedded: Math.min(start + BATCH_SIZE, windows.length), windowsTotal: windows.length });
    }
    return distances;
  }

  const chunkSource = ({ documentName, body, pageMap, ragConfig }: CutSource): ChunkSource => ({
    documentName,
    body,
    pageMap,
    chunking: ragConfig.chunking,
  });

  return {
    /** Situated by their headings alone. */
    async cut(source: CutSource, step: Step): Promise<IndexedChunk[]> {
      return chunker.chunk(chunkSource(source), await distancesOf(source, step), step.signal);
    },

    /** With what a model has said of them. */
    async cutSituated(source: CutSource, step: Step): Promise<IndexedChunk[]> {
      const distances = await distancesOf(source, step);
      const chunks = await chunker.chunk(chunkSource(source), distances, step.signal);
      const situations = (await contexts.find(source, chunks)).map((situation) => situation ?? '');
      if (situations.every((situation) => situation === '')) return chunks;
      return chunker.chunk({ ...chunkSource(source), situations }, distances, step.signal);
    },
  };
}
