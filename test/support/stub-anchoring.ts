import type { AnchoringActivities } from '#activities/anchoring.ts';
import { recordCalls } from './stub-calls.ts';

/** Stub activities that succeed at once unless replaced. Records the names of called activities in order. */
export function stubAnchoring(replaced: Partial<AnchoringActivities> = {}) {
  const { activities, names, untilCalled } = recordCalls<AnchoringActivities>({
    proposeWords: async () => ({ count: 40 }),
    recordAnchoring: async () => undefined,
    recordParkedAnchoring: async () => undefined,
    recordResumedAnchoring: async () => undefined,
    recordAnchoringFailure: async () => undefined,
    recordAnchoringCancellation: async () => undefined,
    ...replaced,
  });
  return { activities, calls: names, untilCalled };
}
