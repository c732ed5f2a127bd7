import type {
  PagesResult,
  PreviewDocumentInput,
  RecordPreviewEndInput,
  RecordPreviewFailureInput,
  RenderResult,
} from '#src/contracts/previews.ts';
import type { PreviewsService } from '#src/modules/previews/previews.service.ts';
import { heartbeating } from './heartbeating.ts';

export type PreviewActivities = ReturnType<typeof createPreviewActivities>;

/** Activities of `previewDocument`. All are idempotent and safe to run concurrently. */
export function createPreviewActivities({ previews }: { previews: PreviewsService }) {
  return {
    renderPreview: (input: PreviewDocumentInput): Promise<RenderResult> =>
      heartbeating((step) => previews.render(input, step)),

    alignPages: (input: PreviewDocumentInput): Promise<PagesResult> =>
      heartbeating((step) => previews.alignPages(input, step)),

    recordPreview: (input: RecordPreviewEndInput): Promise<void> => heartbeating(() => previews.recordSuccess(input)),

    recordParkedPreview: (input: RecordPreviewFailureInput): Promise<void> =>
      heartbeating(() => previews.recordParked(input)),

    recordResumedPreview: (input: PreviewDocumentInput): Promise<void> =>
      heartbeating(() => previews.recordResumed(input)),

    recordPreviewFailure: (input: RecordPreviewFailureInput): Promise<void> =>
      heartbeating(() => previews.recordFailure(input)),

    recordPreviewCancellation: (input: RecordPreviewEndInput): Promise<void> =>
      heartbeating(() => previews.recordCancellation(input)),
  };
}
