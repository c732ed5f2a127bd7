import { ApplicationFailure, isCancellation, proxyActivities } from '@temporalio/workflow';
import type { CleanUpActivities } from '#activities/clean-up.ts';
import type { CleanUpInput, CleanUpResult } from '#src/contracts/clean-up.ts';
import { toRunFailure } from './failure.ts';
import { sweepPolicy } from './policies.ts';
import { appendRunProgress, showRunFailure, showRunProgress } from './visibility.ts';

/**
 * Deletes what has expired or is no longer used. Each sweep is an activity; if one fails, the others still run. They run
 * one after another, so that long sweeps do not take all slots of the queue from erasures.
 */
export async function cleanUp({ sweeps }: CleanUpInput): Promise<CleanUpResult> {
  const removed: CleanUpResult = {};
  const failures: { sweep: string; code: string; message: string }[] = [];
  const table = () =>
    ['Removed:', ...Object.entries(removed).map(([sweep, count]) => `- ${sweep}: ${count}`)].join('\n');

  for (const sweep of sweeps) {
    const { runSweep } = proxyActivities<CleanUpActivities>({ ...sweepPolicy, summary: sweep });
    try {
      removed[sweep] = await runSweep({ sweep });
    } catch (error) {
      const failure = toRunFailure(error);
      if (isCancellation(error) || failure === undefined) throw error;
      failures.push({ sweep, ...failure });
    }
    showRunProgress(table());
  }

  const [first] = failures;
  if (first === undefined) return removed;
  const message = failures.map((failure) => `${failure.sweep}: ${failure.message}`).join('; ');
  showRunFailure({ code: first.code, message });
  appendRunProgress(table());
  throw ApplicationFailure.nonRetryable(`Some sweeps failed. ${message}`, first.code, removed);
}
