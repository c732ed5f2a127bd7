import type { ChunkSource, IndexedChunk } from '#src/domain/documents/chunk-document.ts';
import type { RagConfig } from '#src/domain/documents/rag-config.ts';
import { subjectDistance } from '#src/domain/documents/semantic-chunking.ts';
import type { Chunker } from '#src/ports/documents.ts';
import type { ConvertedBody, SituationsService } from './situations.service.ts';

/** Windows that are embedded before the engine hears how far the step is. */
const BATCH_SIZE = 256;

/** A text with what decides how it is cut. */
export type CutSource = Pick<ChunkSource, 'documentName' | 'body' | 'pageMap'> & Pick<RagConfig, 'chunking'>;

export type CutStep = {
  orgId: string;
  /** Some of the windows that a cut by meaning is made from; called in their order. */
  embed: (windows: readonly string[], windowsTotal: number) => Promise<readonly Float32Array[]>;
  signal: AbortSignal;
  report?: (details: unknown) => void;
};

export type DocumentCutterService = ReturnType<typeof createDocumentCutterService>;

/** Cuts documents; the same source gives the same chunks. */
export function createDocumentCutterService(deps: { chunker: Chunker; situations: Pick<SituationsService, 'find'> }) {
  const { chunker, situations } = deps;

  /** Of each window to the next. */
  async function distancesOf(source: CutSource, { orgId, embed, signal, report }: CutStep): Promise<number[]> {
    const windows = await chunker.windows(source, { orgId, signal });
    const distances: number[] = [];
    let before: Float32Array | undefined;
    for (let start = 0; start < windows.length; start += BATCH_SIZE) {
      for (const vector of await embed(windows.slice(start, start + BATCH_SIZE), windows.length)) {
        if (before !== undefined) distances.push(subjectDistance(before, vector));
        before = vector;
      }
      report?.({ windowsEmbedded: Math.min(start + BATCH_SIZE, windows.length), windowsTotal: windows.length });
    }
    return distances;
  }

  return {
    /** Situated by their headings alone. */
    async cut(source: CutSource, step: CutStep): Promise<IndexedChunk[]> {
      return chunker.chunk(source, await distancesOf(source, step), step);
    },

    /** With what a model has said of them. */
    async cutSituated(source: CutSource & ConvertedBody, step: CutStep): Promise<IndexedChunk[]> {
      const distances = await distancesOf(source, step);
      const chunks = await chunker.chunk(source, distances, step);
      const said = (await situations.find(source, chunks)).map((situation) => situation ?? '');
      if (said.every((situation) => situation === '')) return chunks;
      return chunker.chunk({ ...source, situations: said }, distances, step);
    },
  };
}
