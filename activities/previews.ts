import type {
  AlignPagesResult,
  PreviewDocumentInput,
  RecordPreviewEndInput,
  RecordPreviewFailureInput,
  RenderPreviewResult,
} from '#src/contracts/ingestion.ts';
import type { PreviewsService } from '#src/modules/previews/previews.service.ts';
import { withHeartbeats } from './heartbeats.ts';

export type PreviewActivities = ReturnType<typeof createPreviewActivities>;

export function createPreviewActivities({ previews }: { previews: PreviewsService }) {
  return {
    renderPreview: (input: PreviewDocumentInput): Promise<RenderPreviewResult> =>
      withHeartbeats((step) => previews.render(input, step)),

    alignPages: (input: PreviewDocumentInput): Promise<AlignPagesResult> =>
      withHeartbeats((step) => previews.alignPages(input, step)),

    recordPreview: (input: RecordPreviewEndInput): Promise<void> => withHeartbeats(() => previews.recordSuccess(input)),

    recordParkedPreview: (input: RecordPreviewFailureInput): Promise<void> =>
      withHeartbeats(() => previews.recordParked(input)),

    recordResumedPreview: (input: PreviewDocumentInput): Promise<void> =>
      withHeartbeats(() => previews.recordResumed(input)),

    recordPreviewFailure: (input: RecordPreviewFailureInput): Promise<void> =>
      withHeartbeats(() => previews.recordFailure(input)),

    recordPreviewCancellation: (input: RecordPreviewEndInput): Promise<void> =>
      withHeartbeats(() => previews.recordCancellation(input)),
  };
}
