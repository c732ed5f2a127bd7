import type { AttemptOfJob } from './jobs.ts';

/**
 * The argument of `reembedOrganization`: every document of the organization gets vectors of this model. `progress` is
 * there when a run goes on in a new history.
 */
export type ReembedOrganizationInput = { orgId: string; model: string; progress?: ReembeddingProgress };

/** Counts documents. `total` is of the beginning, and grows with documents that come meanwhile. */
export type ReembeddingCounts = { done: number; failed: number; total: number };

export type ReembeddingProgress = ReembeddingCounts & {
  /** Id of the last document that was looked at; null before the first. */
  after: string | null;
  isEachLookedAt: boolean;
  /** Ids of the ingestions that are under way. */
  jobIds: string[];
  isPaused: boolean;
};

export type ReembedOrganizationResult = ReembeddingCounts;

export type OpenReembeddingsInput = { orgId: string; model: string; after: string | null; limit: number };
/** `settled` counts documents for which nothing is to be waited; `after` is null once each was looked at. */
export type OpenReembeddingsResult = { jobIds: string[]; settled: number; after: string | null };

export type AwaitReembeddingsInput = { orgId: string; jobIds: string[]; counts: ReembeddingCounts };
/** Those that have ended since, by how. */
export type AwaitReembeddingsResult = { done: string[]; failed: string[] };

export type RecordReembeddingPauseInput = { orgId: string; isPaused: boolean };
export type RecordReembeddingEndInput = { orgId: string } & AttemptOfJob;
export type RecordReembeddingInput = RecordReembeddingEndInput & { counts: ReembeddingCounts };
/** `error` has a code of the error catalogue. */
export type RecordReembeddingFailureInput = RecordReembeddingEndInput & { error: { code: string; message: string } };

/** Updates of a run: it opens no more ingestions, or goes on doing so. Refused when it does already. */
export const pauseUpdateName = 'pause';
export const resumeUpdateName = 'resume';
