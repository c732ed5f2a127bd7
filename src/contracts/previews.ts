import type { AttemptOfJob } from './jobs.ts';

/** In order. The first makes the PDF, the second tells the text which page is where. */
export const previewStages = ['render', 'pages'] as const;

export type PreviewStage = (typeof previewStages)[number];

/** The argument of `previewDocument` and of each of its activities. */
export type PreviewDocumentInput = { orgId: string; documentId: string; generation: number };

/** Null: the document is deleted, or has another original by now. */
export type RenderResult = { sizeBytes: number; reused: boolean } | null;
/** Null: the document is deleted, or has another original by now. */
export type PagesResult = { pageCount: number } | null;
/** `pageCount` is null where there was nothing left to preview. */
export type PreviewDocumentResult = { pageCount: number | null };

export type RecordPreviewEndInput = PreviewDocumentInput & AttemptOfJob;
/** `error` has a code of the error catalogue. */
export type RecordPreviewFailureInput = RecordPreviewEndInput & { error: { code: string; message: string } };

/** Answer of the `stage` query. */
export type PreviewProgress = { stage: PreviewStage | 'queued' | 'done' };
