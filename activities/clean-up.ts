import type { RunSweepInput, SweepName } from '#src/contracts/clean-up.ts';
import type { Telemetry } from '#src/ports/telemetry.ts';
import { withHeartbeats } from './heartbeats.ts';

/**
 * Deletes what has expired. `note` shows the number so far in the Temporal UI.
 * @returns the number of rows, files or runs that were removed or queued
 */
export type Sweep = (step: { signal: AbortSignal; note: (details: unknown) => void }) => Promise<number>;

export type CleanUpActivities = ReturnType<typeof createCleanUpActivities>;

export function createCleanUpActivities(deps: {
  sweeps: Record<SweepName, Sweep>;
  telemetry: Pick<Telemetry, 'metrics'>;
}) {
  const { sweeps, telemetry } = deps;
  return {
    async runSweep({ sweep }: RunSweepInput): Promise<number> {
      try {
        return await withHeartbeats(sweeps[sweep]);
      } catch (error) {
        telemetry.metrics.count('acs_sweep_failures_total', { sweep });
        throw error;
      }
    },
  };
}
