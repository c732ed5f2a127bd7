import { activityInfo } from '@temporalio/activity';
import type {
  DocumentDeletionSliceResult,
  ImportCounts,
  ImportFileInput,
  ImportFileResult,
  ImportRun,
  ImportSliceResult,
  QueueSyncInput,
  QueueSyncResult,
  RecordFileFailureInput,
  RecordImportEndInput,
  RecordImportFailureInput,
  UnfinishedImportFiles,
} from '#src/contracts/connectors.ts';
import type { ImportStepsService } from '#src/modules/imports/import-steps.service.ts';
import type { SyncsService } from '#src/modules/imports/syncs.service.ts';
import { withHeartbeats } from './heartbeats.ts';

export type ConnectorActivities = ReturnType<typeof createConnectorActivities>;

/**
 * Activities of the workflows `importFromConnector`, `syncConnection`, `importFile` and `queueSync`. All are
 * idempotent: files that were listed or imported before are not fetched again.
 */
export function createConnectorActivities(deps: {
  importSteps: ImportStepsService;
  syncs: Pick<SyncsService, 'queueScheduled'>;
}) {
  const { importSteps, syncs } = deps;
  return {
    queueSyncOfConnection: (input: QueueSyncInput): Promise<QueueSyncResult> =>
      withHeartbeats(() => syncs.queueScheduled(input)),

    beginImport: (input: ImportRun): Promise<void> => withHeartbeats(() => importSteps.begin(input)),

    listFiles: (input: ImportRun): Promise<ImportSliceResult> =>
      withHeartbeats(({ signal }) => importSteps.list(input, signal)),

    pendingFiles: (input: ImportRun): Promise<UnfinishedImportFiles> =>
      withHeartbeats(() => importSteps.pending(input)),

    fetchFile: (input: ImportFileInput): Promise<ImportFileResult> =>
      withHeartbeats(({ signal }) => importSteps.fetch(input, { signal, attempt: activityInfo().attempt })),

    deleteMissing: (input: ImportRun): Promise<DocumentDeletionSliceResult> =>
      withHeartbeats(({ signal }) => importSteps.deleteMissing(input, signal)),

    finishImport: (input: RecordImportEndInput): Promise<ImportCounts> =>
      withHeartbeats(() => importSteps.finish(input)),

    recordFileFailure: (input: RecordFileFailureInput): Promise<void> =>
      withHeartbeats(() => importSteps.recordFileFailure(input)),

    recordImportParked: (input: RecordImportFailureInput): Promise<void> =>
      withHeartbeats(() => importSteps.recordParked(input)),

    recordImportResumed: (input: ImportRun): Promise<void> => withHeartbeats(() => importSteps.recordResumed(input)),

    recordImportFailure: (input: RecordImportFailureInput): Promise<void> =>
      withHeartbeats(() => importSteps.recordFailure(input)),

    recordImportCancellation: (input: RecordImportEndInput): Promise<void> =>
      withHeartbeats(() => importSteps.recordCancellation(input)),
  };
}
