import type { JobAttempt } from './workflow-runs.ts';

export const exportStages = ['count', 'write', 'publish'] as const;

export type ExportStage = (typeof exportStages)[number];

export type ExportRef = { orgId: string; exportId: string };

/** `volumes` and `records` count what an export has stored; `total` is the number of records to export. */
export type ExportProgress = {
  stage: ExportStage | 'queued' | 'done';
  volumes: number;
  records: number;
  total: number;
};

export type ExportOrganizationInput = ExportRef & { progress?: ExportProgress };
export type ExportOrganizationResult = { volumes: number; records: number };

/** `number` counts volumes from 1, `done` the records before this volume, `total` those at the beginning of the run. */
export type WriteExportVolumeInput = ExportRef & { number: number; done: number; total: number };
export type WriteExportVolumeResult = { records: number; isMore: boolean };

export type PublishExportInput = ExportRef & { records: number };

export type RecordExportEndInput = ExportRef & JobAttempt;
export type RecordExportFailureInput = RecordExportEndInput & { error: { code: string; message: string } };
