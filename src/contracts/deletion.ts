import type { AttemptOfJob } from './jobs.ts';

/** In order. The last makes the document's row go, by which all the others find what is left to do. */
export const deletionStages = ['stop', 'vectors', 'chunks', 'original', 'forget'] as const;

export type DeletionStage = (typeof deletionStages)[number];

/** The argument of `deleteDocument` and of each of its activities. */
export type DeleteDocumentInput = { orgId: string; documentId: string };

/** `error` has a code of the error catalogue. */
export type RecordDeletionFailureInput = DeleteDocumentInput &
  AttemptOfJob & { error: { code: string; message: string } };

/** Answer of the `stage` query. */
export type DeletionProgress = { stage: DeletionStage | 'queued' | 'done' };
