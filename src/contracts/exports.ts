import type { JobAttempt } from './workflow-runs.ts';

export const exportStages = ['count', 'write', 'publish'] as const;

export type ExportStage = (typeof exportStages)[number];

export type ExportReference = { orgId: string; exportId: string };

export type ExportProgress = {
  stage: ExportStage | 'queued' | 'done';
  volumes: number;
  records: number;
  total: number;
};

export type ExportOrganizationInput = ExportReference & { progress?: ExportProgress };
export type ExportOrganizationResult = { volumes: number; records: number };

/**
 * Input for writing one volume of an export. `number` counts volumes from 1; `done` is the number of records in earlier
 * volumes; `total` is the number of records at the beginning of the run.
 */
export type WriteExportVolumeInput = ExportReference & { number: number; done: number; total: number };
export type WriteExportVolumeResult = { records: number; isMore: boolean };

export type PublishExportInput = ExportReference & { records: number };

export type RecordExportEndInput = ExportReference & JobAttempt;
export type RecordExportFailureInput = RecordExportEndInput & { error: { code: string; message: string } };
