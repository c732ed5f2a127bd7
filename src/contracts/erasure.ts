import type { AttemptOfJob } from './jobs.ts';

/**
 * In order. `stop` is done at once, the others when it is time. The last makes go by what the others find their work.
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

/** What is deleted as rows of our own database; documents have more to them. */
export const erasedRows = ['chats', 'drafts', 'agents', 'folders', 'traces'] as const satisfies ErasureStage[];

export type ErasedRows = (typeof erasedRows)[number];

/** What a user leaves behind that nobody else may read; everything of an organization where `userId` is null. */
export type Legacy = { orgId: string; userId: string | null };

/** The argument of `eraseContent`. `dueAt` is a time in ISO 8601; `progress` is there when a run goes on in a new history. */
export type EraseContentInput = Legacy & { dueAt: string; progress?: ErasureProgress };

/** How many of each kind are erased. */
export type ErasedByKind = { [what in 'documents' | ErasedRows]?: number };

/** Answer of the `stage` query. `erased` counts documents, chats and other rows; runs of before did not tell them apart. */
export type ErasureProgress = { stage: ErasureStage | 'queued' | 'done'; erased: number; byKind?: ErasedByKind };

export type EraseContentResult = { erased: number; byKind: ErasedByKind };

export type ForgetLeaverInput = Legacy & { byKind?: ErasedByKind };

/** `erased` is what went before. */
export type EraseSliceInput = Legacy & { erased: number };
export type EraseSliceResult = { erased: number; isMore: boolean };
export type EraseRowsInput = EraseSliceInput & { what: ErasedRows };

export type RecordErasureInput = Legacy & AttemptOfJob;
/** `error` has a code of the error catalogue. */
export type RecordErasureFailureInput = RecordErasureInput & { error: { code: string; message: string } };
