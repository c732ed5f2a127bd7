import type { PreviewActivities } from '#activities/previews.ts';
import { recordCalls } from './stub-calls.ts';

/** Stub activities that succeed at once unless replaced. Records the names of called activities in order. */
export function stubPreviews(replaced: Partial<PreviewActivities> = {}) {
  const { activities, names, untilCalled } = recordCalls<PreviewActivities>({
    renderPreview: async () => ({ sizeBytes: 30_000, reused: false }),
    alignPages: async () => ({ pageCount: 3 }),
    recordPreview: async () => undefined,
    recordParkedPreview: async () => undefined,
    recordResumedPreview: async () => undefined,
    recordPreviewFailure: async () => undefined,
    recordPreviewCancellation: async () => undefined,
    ...replaced,
  });
  return { activities, calls: names, untilCalled };
}
