import type { JobAttempt } from './workflow-runs.ts';

/** Stages of import and sync workflows, in order. Only syncs have the stage `delete`. */
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

/** `mustListAgain`: files may have changed while the sync waited for the confirmation of its deletions. */
export type DocumentDeletionSliceResult = ImportSliceResult & { mustListAgain: boolean };

export type ImportFileInput = ImportRun & { n: number };

export type ImportFileResult = { status: 'added' | 'updated' | 'unchanged' | 'failed'; code: string | null };

export type UnfinishedImportFiles = { numbers: number[]; counts: ImportCounts };

export type RecordImportEndInput = ImportRun & JobAttempt;
export type RecordImportFailureInput = RecordImportEndInput & { error: { code: string; message: string } };
export type RecordFileFailureInput = ImportFileInput & { error: { code: string; message: string } };

export type ImportProgress = { stage: ImportStage | 'queued' | 'done'; isListed: boolean; counts: ImportCounts };

export type QueueSyncInput = { orgId: string; connectionId: string };

/** `jobId` is null if no sync was queued; `reason` says why a sync was queued or not. */
export type QueueSyncResult = { jobId: string | null; reason: string };
