/** In order. The last makes the document's row go, by which all the others find what is left to do. */
export const deletionStages = ['stop', 'vectors', 'chunks', 'original', 'forget'] as const;

export type DeletionStage = (typeof deletionStages)[number];

/** The argument of `deleteDocument` and of each of its activities. */
export type DeleteDocumentInput = { orgId: string; documentId: string };

/**
 * `attempt` is that of the job by which the run was started; absent where nobody told it. `error` has a code of the
 * error catalogue.
 */
export type RecordDeletionFailureInput = DeleteDocumentInput & {
  attempt?: number;
  error: { code: string; message: string };
};

/** Answer of the `stage` query. */
export type DeletionProgress = { stage: DeletionStage | 'queued' | 'done' };
