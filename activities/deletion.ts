import type { DeleteDocumentInput, RecordDeletionFailureInput } from '#src/contracts/deletion.ts';
import type { DeletionService } from '#src/modules/deletion/deletion.service.ts';
import { withHeartbeats } from './heartbeats.ts';

export type DeletionActivities = ReturnType<typeof createDeletionActivities>;

export function createDeletionActivities({ deletion }: { deletion: DeletionService }) {
  return {
    stopIngestion: (input: DeleteDocumentInput): Promise<void> =>
      withHeartbeats(({ signal }) => deletion.stopIngestion(input, signal)),

    deleteVectors: (input: DeleteDocumentInput): Promise<void> => withHeartbeats(() => deletion.deleteVectors(input)),

    deleteChunks: (input: DeleteDocumentInput): Promise<void> =>
      withHeartbeats(({ signal }) => deletion.deleteChunks(input, signal)),

    deleteOriginal: (input: DeleteDocumentInput): Promise<void> => withHeartbeats(() => deletion.deleteOriginal(input)),

    forgetDocument: (input: DeleteDocumentInput): Promise<void> => withHeartbeats(() => deletion.forgetDocument(input)),

    recordDeletion: (input: DeleteDocumentInput): Promise<void> => withHeartbeats(() => deletion.recordDeletion(input)),

    recordParkedDeletion: (input: RecordDeletionFailureInput): Promise<void> =>
      withHeartbeats(() => deletion.recordParked(input)),

    recordResumedDeletion: (input: DeleteDocumentInput): Promise<void> =>
      withHeartbeats(() => deletion.recordResumed(input)),

    recordDeletionFailure: (input: RecordDeletionFailureInput): Promise<void> =>
      withHeartbeats(() => deletion.recordFailure(input)),
  };
}
