import type { AttemptOfJob } from './attempts.ts';

/** In order. */
export const exportStages = ['count', 'write', 'publish'] as const;

export type ExportStage = (typeof exportStages)[number];

export type ExportKey = { orgId: string; exportId: string };

/** Progress of a run. `volumes` and `records` count what is stored; volumes are numbered from 1. */
export type ExportProgress = {
  stage: ExportStage | 'queued' | 'done';
  volumes: number;
  records: number;
  total: number;
};

/** The argument of `exportOrganization`. `progress` is set when a run continues as new. */
export type ExportOrganizationInput = ExportKey & { progress?: ExportProgress };
export type ExportOrganizationResult = { volumes: number; records: number };

/** `done` counts the records before this volume, `total` those at the beginning of the run. */
export type WriteVolumeInput = ExportKey & { number: number; done: number; total: number };
export type WriteVolumeResult = { records: number; isMore: boolean };

export type PublishExportInput = ExportKey & { records: number };

export type RecordExportEndInput = ExportKey & AttemptOfJob;
/** `error.code` is a code of the error catalogue. */
export type RecordExportFailureInput = RecordExportEndInput & { error: { code: string; message: string } };
