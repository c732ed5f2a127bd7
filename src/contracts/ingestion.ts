import type { AttemptOfJob } from './jobs.ts';

/** In order; `situate` is left out without a model for it. The last makes the generation the one that readers see. */
export const ingestionStages = ['parse', 'convert', 'situate', 'chunk', 'embed', 'activate'] as const;

export type IngestionStage = (typeof ingestionStages)[number];

/** The argument of each activity of `ingestDocument`: ids only; activities load the rest. */
export type IngestDocumentInput = { orgId: string; documentId: string; generation: number };

/**
 * The argument of `ingestDocument`. `isSmall`: its steps are tried all at once. `progress` is there when a run goes on
 * in a new history.
 */
export type IngestDocumentRun = IngestDocumentInput & { isSmall?: boolean; progress?: IngestionProgress };

export type ParseResult = { sourceFormat: string; sizeBytes: number };
/**
 * `pagesLeft`: that many pages are pictures that were not read yet, and nothing else is known. `needsWindows` tells a cut
 * by meaning, `needsContexts` that a model is asked for situations. Absent, and standing for no, in histories from before
 * there were such steps.
 */
export type ConvertResult = {
  charCount: number;
  pageCount: number | null;
  reused: boolean;
  pagesLeft?: number;
  needsWindows?: boolean;
  needsContexts?: boolean;
};
/** One slice of the work. */
export type WindowsResult = { windowsEmbedded: number; windowsLeft: number };
/** One slice of the work; counts different texts. */
export type SituateResult = { chunksSituated: number; chunksLeft: number };
export type ChunkResult = { chunksTotal: number };
/** One slice of the work; `chunksLeft` is absent, and stands for 0, in histories from before there were slices. */
export type EmbedResult = { chunksEmbedded: number; chunksLeft?: number };
/** How far all steps at once have come; null: that step was not done. */
export type AtOnceResult = { converted: ConvertResult | null; chunksTotal: number | null; isDone: boolean };
export type IngestDocumentResult = { chunks: number };

export type RecordIngestionEndInput = IngestDocumentInput & AttemptOfJob;

/** `error` has a code of the error catalogue. */
export type RecordIngestionFailureInput = RecordIngestionEndInput & { error: { code: string; message: string } };

/** Answer of the `stage` query. */
export type IngestionProgress = {
  stage: IngestionStage | 'queued' | 'done';
  /** Null before that step is done. */
  converted: ConvertResult | null;
  /** Null before the document is cut. */
  chunksTotal: number | null;
  /** How often it was found that vectors are missing. */
  timesVectorsMissed: number;
};
