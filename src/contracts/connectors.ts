import type { AttemptOfJob } from './jobs.ts';

/** In order. `delete` is of syncs only. */
export const importStages = ['list', 'import', 'delete', 'finish'] as const;

export type ImportStage = (typeof importStages)[number];

/** The argument of each step: what is to be done, and how far it is, stands in the rows of the run. */
export type ImportRun = { orgId: string; connectionId: string; runId: string };

/** The argument of `importFromConnector` and `syncConnection`. `progress` is there when a run goes on in a new history. */
export type ImportRunInput = ImportRun & { progress?: ImportProgress };

/** How many files a run has found, and what became of them. */
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

/** `mustListAgain`: somebody was asked whether so many may go, and what is at the provider may be other since. */
export type DeletionSlice = ImportSlice & { mustListAgain: boolean };

/** The argument of `importFile`; files of a run count from 1. */
export type ImportFileInput = ImportRun & { n: number };

export type ImportFileResult = { status: 'added' | 'updated' | 'unchanged' | 'failed'; code: string | null };

/** Files of a run that wait to be imported. */
export type PendingFiles = { numbers: number[]; counts: ImportCounts };

export type RecordImportEndInput = ImportRun & AttemptOfJob;
/** `error` has a code of the error catalogue. */
export type RecordImportFailureInput = RecordImportEndInput & { error: { code: string; message: string } };
export type RecordFileFailureInput = ImportFileInput & { error: { code: string; message: string } };

/** Answer of the `stage` query. */
export type ImportProgress = { stage: ImportStage | 'queued' | 'done'; isListed: boolean; counts: ImportCounts };

/** The argument of `queueSync`, which the schedule of a connection starts. */
export type QueueSyncInput = { orgId: string; connectionId: string };

/** Null for `jobId`: nothing was begun, and `reason` says why. */
export type QueueSyncResult = { jobId: string | null; reason: string };
