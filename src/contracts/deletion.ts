import type { StoreAuditProgress, StoreAuditStage } from '#src/domain/documents/audit-report.ts';
import type { JobAttempt } from './workflow-runs.ts';

/** Stages of a document deletion, in order. The last stage deletes the document's row, which the other stages read. */
export const deletionStages = ['stop', 'vectors', 'chunks', 'original', 'forget'] as const;

export type DeletionStage = (typeof deletionStages)[number];

export type DeleteDocumentInput = { orgId: string; documentId: string };

export type RecordDeletionFailureInput = DeleteDocumentInput &
  JobAttempt & { error: { code: string; message: string } };

export type DeletionProgress = { stage: DeletionStage | 'queued' | 'done' };

/**
 * Stages of an erasure in order. `wait` lasts until the erasure is due; `forget` deletes the rows that other stages
 * read.
 */
export const erasureStages = [
  'stop',
  'wait',
  'documents',
  'chats',
  'drafts',
  'agents',
  'folders',
  'traces',
  'forget',
] as const;

export type ErasureStage = (typeof erasureStages)[number];

/** Erasure stages that only delete Postgres rows; `documents` are also in other stores. */
export const sqlOnlyErasureStages = [
  'chats',
  'drafts',
  'agents',
  'folders',
  'traces',
] as const satisfies ErasureStage[];

export type SqlOnlyErasureStage = (typeof sqlOnlyErasureStages)[number];

/**
 * Whose data is erased: the private data of a deleted user, or all data of a deleted organization if `userId` is null.
 */
export type ErasureSubject = { orgId: string; userId: string | null };

export type EraseContentInput = ErasureSubject & { dueAt: string; progress?: ErasureProgress };

type ErasedByKind = { [what in 'documents' | SqlOnlyErasureStage]?: number };

/** `erased` is the number of all erased items. Results of older releases in workflow histories lack `byKind`. */
export type ErasureProgress = { stage: ErasureStage | 'queued' | 'done'; erased: number; byKind?: ErasedByKind };

export type EraseContentResult = { erased: number; byKind: ErasedByKind };

export type FinishErasureInput = ErasureSubject & { byKind?: ErasedByKind };

export type EraseSliceInput = ErasureSubject & { erased: number };
export type EraseSliceResult = { erased: number; isMore: boolean };
export type EraseRowsInput = EraseSliceInput & { what: SqlOnlyErasureStage };

export type RecordErasureInput = ErasureSubject & JobAttempt;
export type RecordErasureFailureInput = RecordErasureInput & { error: { code: string; message: string } };

export type AuditStoresInput = {
  repair: boolean;
  /** Allows the store audit to delete many orphans at once; an operator sets it after checking them. */
  force?: boolean;
  /** Minimum age of an orphan that is deleted; a younger object may belong to a change in progress. */
  graceSeconds: number;
  progress?: StoreAuditProgress;
};

export type AuditStorePageInput = {
  pass: StoreAuditStage;
  after: string | null;
  repair: boolean;
  force?: boolean;
  graceSeconds: number;
};

/** Default minimum age of orphans that the store audit deletes: every upload and deletion ends within this time. */
export const minOrphanAgeSeconds = 3_600;
