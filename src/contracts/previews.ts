import type { AttemptOfJob } from './attempts.ts';

/** In order. `render` makes the PDF, `pages` finds the page starts in the text. */
export const previewStages = ['render', 'pages'] as const;

export type PreviewStage = (typeof previewStages)[number];

/** The argument of `previewDocument` and of each of its activities. */
export type PreviewDocumentInput = { orgId: string; documentId: string; generation: number };

/** Null if the document was deleted or its original was replaced. */
export type RenderResult = { sizeBytes: number; reused: boolean } | null;
/** Null if the document was deleted or its original was replaced. */
export type PagesResult = { pageCount: number } | null;
/** `pageCount` is null if the document was deleted or its original was replaced. */
export type PreviewDocumentResult = { pageCount: number | null };

export type RecordPreviewEndInput = PreviewDocumentInput & AttemptOfJob;
/** `error.code` is a code of the error catalogue. */
export type RecordPreviewFailureInput = RecordPreviewEndInput & { error: { code: string; message: string } };

/** Answer of the `stage` query. */
export type PreviewProgress = { stage: PreviewStage | 'queued' | 'done' };
