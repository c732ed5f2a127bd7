import type { AuditProgress, StorageAuditPass } from '#src/domain/documents/audit-report.ts';
import type { AttemptOfJob } from './workflow-runs.ts';

/** Stages of a document's deletion in order. The last one deletes the document's row, which the others read. */
export const deletionStages = ['stop', 'vectors', 'chunks', 'original', 'forget'] as const;

export type DeletionStage = (typeof deletionStages)[number];

export type DeleteDocumentInput = { orgId: string; documentId: string };

export type RecordDeletionFailureInput = DeleteDocumentInput &
  AttemptOfJob & { error: { code: string; message: string } };

export type DeletionProgress = { stage: DeletionStage | 'queued' | 'done' };

/** Erasure stages in order: `wait` lasts until the due day; the last stage deletes rows that the other stages read. */
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

/** Erasure stages that only delete rows of Postgres; documents are also in other stores. */
export const erasedRows = ['chats', 'drafts', 'agents', 'folders', 'traces'] as const satisfies ErasureStage[];

export type ErasedRows = (typeof erasedRows)[number];

/** Private data of a deleted user; all data of a deleted organization if `userId` is null. */
export type ErasureSubject = { orgId: string; userId: string | null };

export type EraseContentInput = ErasureSubject & { dueAt: string; progress?: ErasureProgress };

type ErasedByKind = { [what in 'documents' | ErasedRows]?: number };

/** `erased` counts all erased items; workflow histories of older releases have no `byKind`. */
export type ErasureProgress = { stage: ErasureStage | 'queued' | 'done'; erased: number; byKind?: ErasedByKind };

export type EraseContentResult = { erased: number; byKind: ErasedByKind };

export type FinishErasureInput = ErasureSubject & { byKind?: ErasedByKind };

export type EraseSliceInput = ErasureSubject & { erased: number };
export type EraseSliceResult = { erased: number; isMore: boolean };
export type EraseRowsInput = EraseSliceInput & { what: ErasedRows };

export type RecordErasureInput = ErasureSubject & AttemptOfJob;
export type RecordErasureFailureInput = RecordErasureInput & { error: { code: string; message: string } };

export type AuditStoresInput = {
  repair: boolean;
  /** Allows the audit to delete many orphans at once; set by an operator after checking them. */
  force?: boolean;
  /** Minimum age of an orphan; younger objects may belong to a change in progress. */
  graceSeconds: number;
  progress?: AuditProgress;
};

export type AuditPageInput = {
  pass: StorageAuditPass;
  after: string | null;
  repair: boolean;
  force?: boolean;
  graceSeconds: number;
};

/** Minimum age of orphans for the audit: uploads and deletions end within this time. */
export const auditGraceSeconds = 3_600;
