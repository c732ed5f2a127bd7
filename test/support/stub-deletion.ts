import type { DeletionActivities } from '#activities/deletion.ts';
import { recordCalls } from './stub-calls.ts';

/** Stub activities that succeed at once unless replaced. Records the names of called activities in order. */
export function stubDeletion(replaced: Partial<DeletionActivities> = {}) {
  const { activities, names, untilCalled } = recordCalls<DeletionActivities>({
    stopIngestion: async () => undefined,
    deleteVectors: async () => undefined,
    deleteChunks: async () => undefined,
    deleteOriginal: async () => undefined,
    forgetDocument: async () => undefined,
    recordDeletion: async () => undefined,
    recordParkedDeletion: async () => undefined,
    recordResumedDeletion: async () => undefined,
    recordDeletionFailure: async () => undefined,
    ...replaced,
  });
  return { activities, calls: names, untilCalled };
}
