import type { AttemptOfJob } from './attempts.ts';

/** In order. Only syncs have `delete`. */
export const importStages = ['list', 'import', 'delete', 'finish'] as const;

export type ImportStage = (typeof importStages)[number];

/** The argument of each activity. Input and progress are in the rows of the run. */
export type ImportRun = { orgId: string; connectionId: string; runId: string };

/** The argument of `importFromConnector` and `syncConnection`. `progress` is set when a run continues as new. */
export type ImportRunInput = ImportRun & { progress?: ImportProgress };

/** Numbers of files by outcome. */
export type ImportCounts = {
  total: number;
  added: number;
  updated: number;
  unchanged: number;
  deleted: number;
  failed: number;
};

/** One slice of the work. */
export type ImportSlice = { counts: ImportCounts; isMore: boolean };

/** `mustListAgain`: the deletion was confirmed after a pause, in which the provider's files may have changed. */
export type DeletionSlice = ImportSlice & { mustListAgain: boolean };

/** The argument of `importFile`; files of a run count from 1. */
export type ImportFileInput = ImportRun & { n: number };

export type ImportFileResult = { status: 'added' | 'updated' | 'unchanged' | 'failed'; code: string | null };

/** Numbers of the files that are still to be imported. */
export type PendingFiles = { numbers: number[]; counts: ImportCounts };

export type RecordImportEndInput = ImportRun & AttemptOfJob;
/** `error.code` is a code of the error catalogue. */
export type RecordImportFailureInput = RecordImportEndInput & { error: { code: string; message: string } };
export type RecordFileFailureInput = ImportFileInput & { error: { code: string; message: string } };

/** Answer of the `stage` query. */
export type ImportProgress = { stage: ImportStage | 'queued' | 'done'; isListed: boolean; counts: ImportCounts };

/** The argument of `queueSync`, which the schedule of a connection starts. */
export type QueueSyncInput = { orgId: string; connectionId: string };

/** `jobId` is null if no sync was queued; `reason` says why. */
export type QueueSyncResult = { jobId: string | null; reason: string };
