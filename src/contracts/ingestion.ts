import type { JobAttempt } from './workflow-runs.ts';

/** Ingestion stages in order. `situate` writes a context per chunk; `activate` makes the generation readable. */
export const ingestionStages = ['parse', 'convert', 'situate', 'chunk', 'embed', 'activate'] as const;

export type IngestionStage = (typeof ingestionStages)[number];

export type IngestDocumentInput = { orgId: string; documentId: string; generation: number };

/** If `isSmall` is true, the workflow tries to run all ingestion steps in one activity. */
export type IngestDocumentRunInput = IngestDocumentInput & { isSmall?: boolean; progress?: IngestionProgress };

export type ParseResult = { sourceFormat: string; sizeBytes: number };
/**
 * `pagesLeft` is the number of scanned pages without OCR; until it is 0, the other fields are meaningless.
 * `needsWindows`: the chunking is semantic. `needsContexts`: a model writes chunk contexts. Workflow histories of older
 * releases have neither of the last two.
 */
export type ConvertResult = {
  charCount: number;
  pageCount: number | null;
  reused: boolean;
  pagesLeft?: number;
  needsWindows?: boolean;
  needsContexts?: boolean;
};
/** `from` is the number of files of the archive that earlier slices have passed. */
export type ImportArchiveInput = IngestDocumentInput & { from: number };
/** `next` continues the import; null after the last file. `skipped` holds the first few files that were not imported. */
export type ImportArchiveResult = { next: number | null; files: number; skippedCount: number; skipped: string[] };
export type EmbedWindowsResult = { windowsEmbedded: number; windowsLeft: number };
export type SituateChunksResult = { chunksSituated: number; chunksLeft: number };
export type ChunkResult = { chunksTotal: number };
/**
 * `chunksLeft` is the number of chunks without a vector; results of older releases in workflow histories lack it, which
 * means 0. `expectedSeconds` is the time for them at the rate of this activity, if it could be measured.
 */
export type EmbedResult = { chunksEmbedded: number; chunksLeft?: number; expectedSeconds?: number };
/**
 * Result of the activity that tries all ingestion steps at once. A field is null if the step that sets it was not done.
 */
export type IngestAtOnceResult = { converted: ConvertResult | null; chunksTotal: number | null; isDone: boolean };
/** `note` says in the job of a successful ingestion what was left out. */
export type ActivateGenerationInput = IngestDocumentInput & { note?: { code: string; message: string } };
export type IngestDocumentResult = { chunks: number };

export type RecordIngestionEndInput = IngestDocumentInput & JobAttempt;

export type RecordIngestionFailureInput = RecordIngestionEndInput & { error: { code: string; message: string } };

export type IngestionProgress = {
  stage: IngestionStage | 'queued' | 'done';
  converted: ConvertResult | null;
  chunksTotal: number | null;
  timesVectorsMissed: number;
  archive?: ImportArchiveResult;
};

/** Preview stages in order. `render` makes the PDF; `pages` finds where pages start in the document's text. */
export const previewStages = ['render', 'pages'] as const;

export type PreviewStage = (typeof previewStages)[number];

export type PreviewDocumentInput = { orgId: string; documentId: string; generation: number };

/** Result of rendering a preview; null if the document was deleted or its original file was replaced. */
export type RenderPreviewResult = { sizeBytes: number; reused: boolean } | null;
export type AlignPagesResult = { pageCount: number } | null;
export type PreviewDocumentResult = { pageCount: number | null };

export type RecordPreviewEndInput = PreviewDocumentInput & JobAttempt;
export type RecordPreviewFailureInput = RecordPreviewEndInput & { error: { code: string; message: string } };

export type PreviewProgress = { stage: PreviewStage | 'queued' | 'done' };

export type ReembedOrganizationInput = { orgId: string; model: string; progress?: ReembeddingProgress };

/** Numbers of documents in a re-embedding. `total` grows with documents that are added during the run. */
export type ReembeddingCounts = { done: number; failed: number; total: number };

export type ReembeddingProgress = ReembeddingCounts & {
  after: string | null;
  isEachLookedAt: boolean;
  jobIds: string[];
  isPaused: boolean;
};

export type ReembedOrganizationResult = ReembeddingCounts;

export type OpenReembeddingsInput = { orgId: string; model: string; after: string | null; limit: number };
/**
 * `settled` is the number of documents that need no new ingestion; `after` is where the next call continues, or null
 * after the last document.
 */
export type OpenReembeddingsResult = { jobIds: string[]; settled: number; after: string | null };

export type AwaitReembeddingsInput = { orgId: string; jobIds: string[]; counts: ReembeddingCounts };
export type AwaitReembeddingsResult = { done: string[]; failed: string[] };

export type RecordReembeddingPauseInput = { orgId: string; isPaused: boolean };
export type RecordReembeddingEndInput = { orgId: string } & JobAttempt;
export type RecordReembeddingInput = RecordReembeddingEndInput & { counts: ReembeddingCounts };
export type RecordReembeddingFailureInput = RecordReembeddingEndInput & { error: { code: string; message: string } };

/**
 * Workflow updates that pause and resume a re-embedding. Pausing a paused re-embedding and resuming a running one are
 * rejected.
 */
export const pauseUpdateName = 'pause';
export const resumeUpdateName = 'resume';
