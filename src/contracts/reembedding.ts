import type { AttemptOfJob } from './attempts.ts';

/**
 * The argument of `reembedOrganization`, which embeds every document of the organization with this model. `progress` is set
 * when a run continues as new.
 */
export type ReembedOrganizationInput = { orgId: string; model: string; progress?: ReembeddingProgress };

/** Counts documents. `total` grows with documents that are added during the run. */
export type ReembeddingCounts = { done: number; failed: number; total: number };

export type ReembeddingProgress = ReembeddingCounts & {
  /** Id of the last document that was processed; null before the first. */
  after: string | null;
  isEachLookedAt: boolean;
  /** Ids of the running ingestions. */
  jobIds: string[];
  isPaused: boolean;
};

export type ReembedOrganizationResult = ReembeddingCounts;

export type OpenReembeddingsInput = { orgId: string; model: string; after: string | null; limit: number };
/** `settled` counts documents that need no ingestion; `after` is null after the last document. */
export type OpenReembeddingsResult = { jobIds: string[]; settled: number; after: string | null };

export type AwaitReembeddingsInput = { orgId: string; jobIds: string[]; counts: ReembeddingCounts };
/** Ingestions that have ended, by outcome. */
export type AwaitReembeddingsResult = { done: string[]; failed: string[] };

export type RecordReembeddingPauseInput = { orgId: string; isPaused: boolean };
export type RecordReembeddingEndInput = { orgId: string } & AttemptOfJob;
export type RecordReembeddingInput = RecordReembeddingEndInput & { counts: ReembeddingCounts };
/** `error.code` is a code of the error catalogue. */
export type RecordReembeddingFailureInput = RecordReembeddingEndInput & { error: { code: string; message: string } };

/** Updates that pause and resume a run. Rejected if the run is already in that state. */
export const pauseUpdateName = 'pause';
export const resumeUpdateName = 'resume';
