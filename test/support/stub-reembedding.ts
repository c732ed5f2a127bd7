import type { ReembeddingActivities } from '#activities/reembedding.ts';

/** An organization with so many documents, whose ingestions end well as soon as somebody waits for them. */
export function stubReembedding(
  documents: number,
  replaced: Partial<ReembeddingActivities> = {},
): { activities: ReembeddingActivities; calls: { name: keyof ReembeddingActivities; input: unknown }[] } {
  const calls: { name: keyof ReembeddingActivities; input: unknown }[] = [];
  const ids = Array.from({ length: documents }, (_, index) => `document-${String(index).padStart(4, '0')}`);
  const all: ReembeddingActivities = {
    countReembeddings: async () => ({ total: documents }),
    openReembeddings: async ({ after, limit }) => {
      const page = ids.filter((id) => id > (after ?? '')).slice(0, limit);
      return { jobIds: page, settled: 0, after: page.length < limit ? null : (page.at(-1) ?? null) };
    },
    awaitReembeddings: async ({ jobIds }) => ({ done: jobIds, failed: [] }),
    recordReembeddingPause: async () => undefined,
    recordReembedding: async () => undefined,
    recordParkedReembedding: async () => undefined,
    recordResumedReembedding: async () => undefined,
    recordReembeddingFailure: async () => undefined,
    recordReembeddingCancellation: async () => undefined,
    ...replaced,
  };
  const recorded = <Input, Result>(name: keyof ReembeddingActivities, work: (input: Input) => Promise<Result>) => {
    return (input: Input): Promise<Result> => {
      calls.push({ name, input });
      return work(input);
    };
  };
  const activities: ReembeddingActivities = {
    countReembeddings: recorded('countReembeddings', all.countReembeddings),
    openReembeddings: recorded('openReembeddings', all.openReembeddings),
    awaitReembeddings: recorded('awaitReembeddings', all.awaitReembeddings),
    recordReembeddingPause: recorded('recordReembeddingPause', all.recordReembeddingPause),
    recordReembedding: recorded('recordReembedding', all.recordReembedding),
    recordParkedReembedding: recorded('recordParkedReembedding', all.recordParkedReembedding),
    recordResumedReembedding: recorded('recordResumedReembedding', all.recordResumedReembedding),
    recordReembeddingFailure: recorded('recordReembeddingFailure', all.recordReembeddingFailure),
    recordReembeddingCancellation: recorded('recordReembeddingCancellation', all.recordReembeddingCancellation),
  };
  return { activities, calls };
}
