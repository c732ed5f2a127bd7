import type { AnchoringActivities } from '#activities/anchoring.ts';

type Name = keyof AnchoringActivities;

/** Activities that succeed at once unless replaced, and the names of those that were called, in order. */
export function stubAnchoring(replaced: Partial<AnchoringActivities> = {}): {
  activities: AnchoringActivities;
  calls: Name[];
} {
  const calls: Name[] = [];
  const recorded =
    <Input>(name: Name, work: ((input: Input) => Promise<void>) | undefined) =>
    async (input: Input): Promise<void> => {
      calls.push(name);
      await work?.(input);
    };
  return {
    calls,
    activities: {
      proposeWords: async (input) => {
        calls.push('proposeWords');
        return (await replaced.proposeWords?.(input)) ?? { count: 40 };
      },
      recordAnchoring: recorded('recordAnchoring', replaced.recordAnchoring),
      recordParkedAnchoring: recorded('recordParkedAnchoring', replaced.recordParkedAnchoring),
      recordResumedAnchoring: recorded('recordResumedAnchoring', replaced.recordResumedAnchoring),
      recordAnchoringFailure: recorded('recordAnchoringFailure', replaced.recordAnchoringFailure),
      recordAnchoringCancellation: recorded('recordAnchoringCancellation', replaced.recordAnchoringCancellation),
    },
  };
}
