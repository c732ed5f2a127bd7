import type {
  ExportReference,
  PublishExportInput,
  RecordExportEndInput,
  RecordExportFailureInput,
  WriteExportVolumeInput,
  WriteExportVolumeResult,
} from '#src/contracts/exports.ts';
import type { ExportStepsService } from '#src/modules/exports/export-steps.service.ts';
import { withHeartbeats } from './heartbeats.ts';

export type ExportActivities = ReturnType<typeof createExportActivities>;

export function createExportActivities({ exportSteps }: { exportSteps: ExportStepsService }) {
  return {
    countExport: (input: ExportReference): Promise<{ total: number }> => withHeartbeats(() => exportSteps.count(input)),

    writeVolume: (input: WriteExportVolumeInput): Promise<WriteExportVolumeResult> =>
      withHeartbeats(({ signal }) => exportSteps.writeVolume(input, signal)),

    publishExport: (input: PublishExportInput): Promise<void> => withHeartbeats(() => exportSteps.publish(input)),

    recordExport: (input: RecordExportEndInput): Promise<void> =>
      withHeartbeats(() => exportSteps.recordSuccess(input)),

    recordParkedExport: (input: RecordExportFailureInput): Promise<void> =>
      withHeartbeats(() => exportSteps.recordParked(input)),

    recordResumedExport: (input: ExportReference): Promise<void> =>
      withHeartbeats(() => exportSteps.recordResumed(input)),

    recordExportFailure: (input: RecordExportFailureInput): Promise<void> =>
      withHeartbeats(() => exportSteps.recordFailure(input)),

    recordExportCancellation: (input: RecordExportEndInput): Promise<void> =>
      withHeartbeats(() => exportSteps.recordCancellation(input)),
  };
}
