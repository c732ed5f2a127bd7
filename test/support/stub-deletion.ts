import type { DeletionActivities } from '#activities/deletion.ts';

type Name = keyof DeletionActivities;

/** Activities that succeed at once unless replaced, and the names of those that were called, in order. */
export function stubDeletion(replaced: Partial<DeletionActivities> = {}): {
  activities: DeletionActivities;
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
      stopIngestion: recorded('stopIngestion', replaced.stopIngestion),
      deleteVectors: recorded('deleteVectors', replaced.deleteVectors),
      deleteChunks: recorded('deleteChunks', replaced.deleteChunks),
      deleteOriginal: recorded('deleteOriginal', replaced.deleteOriginal),
      forgetDocument: recorded('forgetDocument', replaced.forgetDocument),
      recordDeletion: recorded('recordDeletion', replaced.recordDeletion),
      recordParkedDeletion: recorded('recordParkedDeletion', replaced.recordParkedDeletion),
      recordResumedDeletion: recorded('recordResumedDeletion', replaced.recordResumedDeletion),
      recordDeletionFailure: recorded('recordDeletionFailure', replaced.recordDeletionFailure),
    },
  };
}
