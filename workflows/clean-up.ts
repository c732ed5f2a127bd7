import { ApplicationFailure, isCancellation, proxyActivities } from '@temporalio/workflow';
import type { CleanUpActivities } from '#activities/clean-up.ts';
import type { CleanUpInput, CleanUpResult } from '#src/contracts/clean-up.ts';
import { toRunFailure } from './failure.ts';
import { sweepPolicy } from './policies.ts';
import { showRunFailure, showRunProgress } from './visibility.ts';

/** Deletes what has expired or is no longer used. Each sweep is an activity; if one fails, the others still end. */
export async function cleanUp({ sweeps }: CleanUpInput): Promise<CleanUpResult> {
  const removed: CleanUpResult = {};
  const failures: { sweep: string; code: string; message: string }[] = [];

  await Promise.all(
    sweeps.map(async (sweep) => {
      const { runSweep } = proxyActivities<CleanUpActivities>({ ...sweepPolicy, summary: sweep });
      try {
        removed[sweep] = await runSweep({ sweep });
      } catch (error) {
        const failure = toRunFailure(error);
        if (isCancellation(error) || failure === undefined) throw error;
        failures.push({ sweep, ...failure });
      }
    }),
  );

  const table = Object.entries(removed).map(([sweep, count]) => `- ${sweep}: ${count}`);
  showRunProgress(['Removed:', ...table].join('\n'));
  const [first] = failures;
  if (first === undefined) return removed;
  const message = failures.map((failure) => `${failure.sweep}: ${failure.message}`).join('; ');
  showRunFailure({ code: first.code, message });
  throw ApplicationFailure.nonRetryable(`Some sweeps failed. ${message}`, first.code, removed);
}
