import type { RunSweepInput, SweepName } from '#src/contracts/clean-up.ts';
import { withHeartbeats } from './heartbeats.ts';

/**
 * Deletes what has expired. `note` shows the number so far in the Temporal UI.
 * @returns the number of rows, files or runs that were removed or queued
 */
export type Sweep = (step: { signal: AbortSignal; note: (details: unknown) => void }) => Promise<number>;

export type CleanUpActivities = ReturnType<typeof createCleanUpActivities>;

export function createCleanUpActivities({ sweeps }: { sweeps: Record<SweepName, Sweep> }) {
  return {
    runSweep: ({ sweep }: RunSweepInput): Promise<number> => withHeartbeats(sweeps[sweep]),
  };
}
