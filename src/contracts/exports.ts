import type { AttemptOfJob } from './workflow-runs.ts';

export const exportStages = ['count', 'write', 'publish'] as const;

export type ExportStage = (typeof exportStages)[number];

export type ExportKey = { orgId: string; exportId: string };

/** `volumes` and `records` count what an export has stored; `total` is the number of records to export. */
export type ExportProgress = {
  stage: ExportStage | 'queued' | 'done';
  volumes: number;
  records: number;
  total: number;
};

export type ExportOrganizationInput = ExportKey & { progress?: ExportProgress };
export type ExportOrganizationResult = { volumes: number; records: number };

/** `number` counts volumes from 1, `done` the records before this volume, `total` those at the beginning of the run. */
export type WriteVolumeInput = ExportKey & { number: number; done: number; total: number };
export type WriteVolumeResult = { records: number; isMore: boolean };

export type PublishExportInput = ExportKey & { records: number };

export type RecordExportEndInput = ExportKey & AttemptOfJob;
export type RecordExportFailureInput = RecordExportEndInput & { error: { code: string; message: string } };
