import type { AttemptOfJob } from './attempts.ts';

/** In order. `situate` (chunk contexts) needs a model. `activate` makes the generation visible to readers. */
export const ingestionStages = ['parse', 'convert', 'situate', 'chunk', 'embed', 'activate'] as const;

export type IngestionStage = (typeof ingestionStages)[number];

/** The argument of each activity of `ingestDocument`: ids only; activities load the rest. */
export type IngestDocumentInput = { orgId: string; documentId: string; generation: number };

/**
 * The argument of `ingestDocument`. `isSmall`: tries all steps in one activity. `progress` is set when a run continues as
 * new.
 */
export type IngestDocumentRun = IngestDocumentInput & { isSmall?: boolean; progress?: IngestionProgress };

export type ParseResult = { sourceFormat: string; sizeBytes: number };
/**
 * `pagesLeft`: scanned pages that OCR has not read yet; the other fields are meaningless until it is 0. `needsWindows`: semantic
 * chunking. `needsContexts`: a model writes chunk contexts. Both are absent (no) in older histories.
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
/** One slice of the work; counts distinct texts. */
export type SituateResult = { chunksSituated: number; chunksLeft: number };
export type ChunkResult = { chunksTotal: number };
/** One slice of the work. `chunksLeft` is absent (0) in older histories. */
export type EmbedResult = { chunksEmbedded: number; chunksLeft?: number };
/** Progress of all steps in one activity; null means that the step was not done. */
export type AtOnceResult = { converted: ConvertResult | null; chunksTotal: number | null; isDone: boolean };
export type IngestDocumentResult = { chunks: number };

export type RecordIngestionEndInput = IngestDocumentInput & AttemptOfJob;

/** `error.code` is a code of the error catalogue. */
export type RecordIngestionFailureInput = RecordIngestionEndInput & { error: { code: string; message: string } };

/** Answer of the `stage` query. */
export type IngestionProgress = {
  stage: IngestionStage | 'queued' | 'done';
  /** Null until the step is done. */
  converted: ConvertResult | null;
  /** Null until the document is chunked. */
  chunksTotal: number | null;
  /** How often vectors were found missing. */
  timesVectorsMissed: number;
};
