import type { DeleteDocumentInput, RecordDeletionFailureInput } from '#src/contracts/deletion.ts';
import type { DeletionService } from '#src/modules/deletion/deletion.service.ts';
import { heartbeating } from './heartbeating.ts';

export type DeletionActivities = ReturnType<typeof createDeletionActivities>;

/** Activities of `deleteDocument`. All are idempotent and safe to run concurrently. */
export function createDeletionActivities({ deletion }: { deletion: DeletionService }) {
  return {
    stopIngestion: (input: DeleteDocumentInput): Promise<void> =>
      heartbeating(({ signal }) => deletion.stopIngestion(input, signal)),

    deleteVectors: (input: DeleteDocumentInput): Promise<void> => heartbeating(() => deletion.deleteVectors(input)),

    deleteChunks: (input: DeleteDocumentInput): Promise<void> =>
      heartbeating(({ signal }) => deletion.deleteChunks(input, signal)),

    deleteOriginal: (input: DeleteDocumentInput): Promise<void> => heartbeating(() => deletion.deleteOriginal(input)),

    forgetDocument: (input: DeleteDocumentInput): Promise<void> => heartbeating(() => deletion.forgetDocument(input)),

    recordDeletion: (input: DeleteDocumentInput): Promise<void> => heartbeating(() => deletion.recordDeletion(input)),

    recordParkedDeletion: (input: RecordDeletionFailureInput): Promise<void> =>
      heartbeating(() => deletion.recordParked(input)),

    recordResumedDeletion: (input: DeleteDocumentInput): Promise<void> =>
      heartbeating(() => deletion.recordResumed(input)),

    recordDeletionFailure: (input: RecordDeletionFailureInput): Promise<void> =>
      heartbeating(() => deletion.recordFailure(input)),
  };
}
