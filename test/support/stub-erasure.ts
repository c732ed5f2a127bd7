import type { ErasureActivities } from '#activities/erasure.ts';

type Name = keyof ErasureActivities;

/**
 * Activities for somebody who has left so many slices of documents, and nothing else; and what was called in order, with
 * the kind of rows that a step erases.
 */
export function stubErasure(
  documentSlices: number,
  replaced: Partial<ErasureActivities> = {},
): { activities: ErasureActivities; calls: string[] } {
  const calls: string[] = [];
  let slicesLeft = documentSlices;
  const all: ErasureActivities = {
    stopWork: async () => undefined,
    eraseDocuments: async () => {
      slicesLeft = Math.max(0, slicesLeft - 1);
      return { erased: 20, isMore: slicesLeft > 0 };
    },
    eraseRows: async () => ({ erased: 1, isMore: false }),
    forgetLeaver: async () => ({ isMore: false }),
    recordErasure: async () => undefined,
    recordParkedErasure: async () => undefined,
    recordResumedErasure: async () => undefined,
    recordErasureFailure: async () => undefined,
    ...replaced,
  };
  const recorded =
    <Input extends object, Result>(name: Name, work: (input: Input) => Promise<Result>) =>
    (input: Input): Promise<Result> => {
      calls.push('what' in input ? `${name} ${input.what}` : name);
      return work(input);
    };
  return {
    calls,
    activities: {
      stopWork: recorded('stopWork', all.stopWork),
      eraseDocuments: recorded('eraseDocuments', all.eraseDocuments),
      eraseRows: recorded('eraseRows', all.eraseRows),
      forgetLeaver: recorded('forgetLeaver', all.forgetLeaver),
      recordErasure: recorded('recordErasure', all.recordErasure),
      recordParkedErasure: recorded('recordParkedErasure', all.recordParkedErasure),
      recordResumedErasure: recorded('recordResumedErasure', all.recordResumedErasure),
      recordErasureFailure: recorded('recordErasureFailure', all.recordErasureFailure),
    },
  };
}
