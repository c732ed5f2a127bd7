import type { AttemptOfJob } from './jobs.ts';

/** In order. */
export const exportStages = ['count', 'write', 'publish'] as const;

export type ExportStage = (typeof exportStages)[number];

/** The export that a step works for. */
export type ExportKey = { orgId: string; exportId: string };

/** How far a run is. Volumes count from 1; `volumes` and `records` are those that are stored. */
export type ExportProgress = {
  stage: ExportStage | 'queued' | 'done';
  volumes: number;
  records: number;
  total: number;
};

/** The argument of `exportOrganization`. `progress` is there when a run goes on in a new history. */
export type ExportOrganizationInput = ExportKey & { progress?: ExportProgress };
export type ExportOrganizationResult = { volumes: number; records: number };

/** `done` and `total` count records: what went before this volume, and what there were at the beginning. */
export type WriteVolumeInput = ExportKey & { number: number; done: number; total: number };
export type WriteVolumeResult = { records: number; isMore: boolean };

export type PublishExportInput = ExportKey & { records: number };

export type RecordExportEndInput = ExportKey & AttemptOfJob;
/** `error` has a code of the error catalogue. */
export type RecordExportFailureInput = RecordExportEndInput & { error: { code: string; message: string } };
