import type { AttemptOfJob } from './attempts.ts';

/** In order. The last stage deletes the document's row, which the other stages need to find what to delete. */
export const deletionStages = ['stop', 'vectors', 'chunks', 'original', 'forget'] as const;

export type DeletionStage = (typeof deletionStages)[number];

/** The argument of `deleteDocument` and of each of its activities. */
export type DeleteDocumentInput = { orgId: string; documentId: string };

/** `error.code` is a code of the error catalogue. */
export type RecordDeletionFailureInput = DeleteDocumentInput &
  AttemptOfJob & { error: { code: string; message: string } };

/** Answer of the `stage` query. */
export type DeletionProgress = { stage: DeletionStage | 'queued' | 'done' };
