import type { ReembeddingActivities } from '#activities/reembedding.ts';
import { recordCalls } from './stub-calls.ts';

/** Stub activities for an organization with the given number of documents, whose ingestions succeed at once. */
export function stubReembedding(documents: number, replaced: Partial<ReembeddingActivities> = {}) {
  const ids = Array.from({ length: documents }, (_, index) => `document-${String(index).padStart(4, '0')}`);
  return recordCalls<ReembeddingActivities>({
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
  });
}
