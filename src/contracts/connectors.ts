import type { JobAttempt } from './workflow-runs.ts';

/** Stages of imports and syncs in order. Only syncs have `delete`. */
export const importStages = ['list', 'import', 'delete', 'finish'] as const;

export type ImportStage = (typeof importStages)[number];

export type ImportRun = { orgId: string; connectionId: string; runId: string };

export type ImportRunInput = ImportRun & { progress?: ImportProgress };

export type ImportCounts = {
  total: number;
  added: number;
  updated: number;
  unchanged: number;
  deleted: number;
  failed: number;
};

export type ImportSliceResult = { counts: ImportCounts; isMore: boolean };

/** `mustListAgain` is true if files may have changed while the sync waited for the confirmation of its deletions. */
export type DeletionSliceResult = ImportSliceResult & { mustListAgain: boolean };

/** Argument of the activity `importFile`. `n` is the number of the file in its run, from 1. */
export type ImportFileInput = ImportRun & { n: number };

export type ImportFileResult = { status: 'added' | 'updated' | 'unchanged' | 'failed'; code: string | null };

export type PendingImportFiles = { numbers: number[]; counts: ImportCounts };

export type RecordImportEndInput = ImportRun & JobAttempt;
export type RecordImportFailureInput = RecordImportEndInput & { error: { code: string; message: string } };
export type RecordFileFailureInput = ImportFileInput & { error: { code: string; message: string } };

export type ImportProgress = { stage: ImportStage | 'queued' | 'done'; isListed: boolean; counts: ImportCounts };

export type QueueSyncInput = { orgId: string; connectionId: string };

/** `jobId` is null if no sync was queued, and `reason` gives the cause. */
export type QueueSyncResult = { jobId: string | null; reason: string };
