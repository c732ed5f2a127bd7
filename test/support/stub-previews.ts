import type { PreviewActivities } from '#activities/previews.ts';

type Name = keyof PreviewActivities;

/** Activities that succeed at once unless replaced, and the names of those that were called, in order. */
export function stubPreviews(replaced: Partial<PreviewActivities> = {}): {
  activities: PreviewActivities;
  calls: Name[];
} {
  const calls: Name[] = [];
  const made: PreviewActivities = {
    renderPreview: async () => ({ sizeBytes: 30_000, reused: false }),
    alignPages: async () => ({ pageCount: 3 }),
    recordPreview: async () => undefined,
    recordParkedPreview: async () => undefined,
    recordResumedPreview: async () => undefined,
    recordPreviewFailure: async () => undefined,
    recordPreviewCancellation: async () => undefined,
    ...replaced,
  };
  const noted = <Input, Result>(name: Name, work: (input: Input) => Promise<Result>) => {
    return (input: Input): Promise<Result> => {
      calls.push(name);
      return work(input);
    };
  };
  return {
    calls,
    activities: {
      renderPreview: noted('renderPreview', made.renderPreview),
      alignPages: noted('alignPages', made.alignPages),
      recordPreview: noted('recordPreview', made.recordPreview),
      recordParkedPreview: noted('recordParkedPreview', made.recordParkedPreview),
      recordResumedPreview: noted('recordResumedPreview', made.recordResumedPreview),
      recordPreviewFailure: noted('recordPreviewFailure', made.recordPreviewFailure),
      recordPreviewCancellation: noted('recordPreviewCancellation', made.recordPreviewCancellation),
    },
  };
}
