import type {
  ExportKey,
  PublishExportInput,
  RecordExportEndInput,
  RecordExportFailureInput,
  WriteVolumeInput,
  WriteVolumeResult,
} from '#src/contracts/exports.ts';
import type { ExportStepsService } from '#src/modules/exports/export-steps.service.ts';
import { heartbeating } from './heartbeating.ts';

export type ExportActivities = ReturnType<typeof createExportActivities>;

/** Activities of `exportOrganization`. All are idempotent and safe to run concurrently. */
export function createExportActivities({ exportSteps }: { exportSteps: ExportStepsService }) {
  return {
    countExport: (input: ExportKey): Promise<{ total: number }> => heartbeating(() => exportSteps.count(input)),

    writeVolume: (input: WriteVolumeInput): Promise<WriteVolumeResult> =>
      heartbeating(({ signal }) => exportSteps.writeVolume(input, signal)),

    publishExport: (input: PublishExportInput): Promise<void> => heartbeating(() => exportSteps.publish(input)),

    recordExport: (input: RecordExportEndInput): Promise<void> => heartbeating(() => exportSteps.recordSuccess(input)),

    recordParkedExport: (input: RecordExportFailureInput): Promise<void> =>
      heartbeating(() => exportSteps.recordParked(input)),

    recordResumedExport: (input: ExportKey): Promise<void> => heartbeating(() => exportSteps.recordResumed(input)),

    recordExportFailure: (input: RecordExportFailureInput): Promise<void> =>
      heartbeating(() => exportSteps.recordFailure(input)),

    recordExportCancellation: (input: RecordExportEndInput): Promise<void> =>
      heartbeating(() => exportSteps.recordCancellation(input)),
  };
}
