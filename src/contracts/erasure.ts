import type { AttemptOfJob } from './attempts.ts';

/**
 * In order. `stop` runs immediately, `wait` lasts until the due day, the others follow. The last stage deletes the rows
 * that the others need.
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

/** Stages that only delete rows of Postgres; documents are also in other stores. */
export const erasedRows = ['chats', 'drafts', 'agents', 'folders', 'traces'] as const satisfies ErasureStage[];

export type ErasedRows = (typeof erasedRows)[number];

/** Private data of a deleted user; all data of an organization if `userId` is null. */
export type ErasureSubject = { orgId: string; userId: string | null };

/** The argument of `eraseContent`. `dueAt` is ISO 8601; `progress` is set when a run continues as new. */
export type EraseContentInput = ErasureSubject & { dueAt: string; progress?: ErasureProgress };

/** Numbers of erased items by kind. */
export type ErasedByKind = { [what in 'documents' | ErasedRows]?: number };

/** Answer of the `stage` query. `erased` counts all items; older histories have no `byKind`. */
export type ErasureProgress = { stage: ErasureStage | 'queued' | 'done'; erased: number; byKind?: ErasedByKind };

export type EraseContentResult = { erased: number; byKind: ErasedByKind };

export type FinishErasureInput = ErasureSubject & { byKind?: ErasedByKind };

/** `erased` is the number before this slice. */
export type EraseSliceInput = ErasureSubject & { erased: number };
export type EraseSliceResult = { erased: number; isMore: boolean };
export type EraseRowsInput = EraseSliceInput & { what: ErasedRows };

export type RecordErasureInput = ErasureSubject & AttemptOfJob;
/** `error.code` is a code of the error catalogue. */
export type RecordErasureFailureInput = RecordErasureInput & { error: { code: string; message: string } };
