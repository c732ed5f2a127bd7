import {
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  CancelledFailure,
  ChildWorkflowFailure,
  isCancellation,
  setCurrentDetails,
  TemporalFailure,
  TerminatedFailure,
  TimeoutFailure,
  workflowInfo,
} from '@temporalio/workflow';
import type { ErrorClass, FailureDetails, JobAttempt } from '#src/contracts/workflow-runs.ts';
import { showRunFailure } from './visibility.ts';

export type RunFailure = { code: string; message: string };

/**
 * Extracts the error code and message from an error that a workflow caught.
 * @returns undefined for an error in workflow code, which must fail the workflow task and not the run, so that the run
 * continues after a fix
 */
export function toRunFailure(error: unknown): RunFailure | undefined {
  if (!(error instanceof TemporalFailure)) return undefined;
  let cause: Error | undefined = error;
  while (cause instanceof TemporalFailure) {
    if (cause instanceof ApplicationFailure) return { code: cause.type ?? 'internal_error', message: cause.message };
    cause = cause.cause;
  }
  const step = error instanceof ActivityFailure ? error.activityType : 'a step';
  return { code: 'service_unavailable', message: `No worker finished ${step} within its time limit.` };
}

/** True if an activity failed because of something that an operator must fix, or ran out of attempts. */
export function needsOperatorAction(error: unknown): boolean {
  const step = error instanceof ChildWorkflowFailure ? stepOf(error) : error;
  if (!(step instanceof ActivityFailure)) return false;
  const { cause, retryState } = step;
  if (retryState === 'MAXIMUM_ATTEMPTS_REACHED' || cause instanceof TimeoutFailure) return true;
  return cause instanceof ApplicationFailure && errorClassOf(cause) === 'operator';
}

function stepOf(error: ChildWorkflowFailure): ActivityFailure | undefined {
  let cause: Error | undefined = error;
  while (cause instanceof TemporalFailure && !(cause instanceof ActivityFailure)) cause = cause.cause;
  return cause instanceof ActivityFailure ? cause : undefined;
}

export function wasChildWorkflowTerminated({ cause }: ChildWorkflowFailure): boolean {
  return cause instanceof TerminatedFailure;
}

/** True if an activity failed because of its input, so that repeating it in any way would fail again. */
export function isPermanentFailure(error: unknown): boolean {
  const cause = error instanceof ActivityFailure ? error.cause : undefined;
  return cause instanceof ApplicationFailure && errorClassOf(cause) === 'permanent';
}

function errorClassOf({ details }: ApplicationFailure): ErrorClass | undefined {
  const { errorClass }: Partial<FailureDetails> = details?.[0] ?? {};
  return errorClass;
}

/**
 * Reads from the workflow's memo which attempt of its job started the run, so that the end of this run is not recorded
 * for a later attempt.
 */
export function readJobAttemptOfRun(): JobAttempt {
  const { attempt, startId } = workflowInfo().memo ?? {};
  return {
    ...(typeof attempt === 'number' && { attempt }),
    ...(typeof startId === 'string' && { startId }),
  };
}

/**
 * Records in the job why its run ends, even if the run was cancelled.
 * @param record writes the end into the job
 * @returns the error that the caller must throw: a cancellation or failure closes the run, an error in workflow code
 * keeps it open
 */
export async function recordUnsuccessfulRunEnd(
  error: unknown,
  record: { cancelled: () => Promise<void>; failed: (failure: RunFailure) => Promise<void> },
): Promise<unknown> {
  // If a worker dies while an activity is cancelled, the activity reports a timeout instead of a cancellation.
  const isCancelled = isCancellation(error) || CancellationScope.current().consideredCancelled;
  return CancellationScope.nonCancellable(async () => {
    if (isCancelled) {
      setCurrentDetails('Cancelled.');
      await record.cancelled().catch(ignoreFailure);
      return new CancelledFailure('The run was cancelled.');
    }
    const failure = toRunFailure(error);
    if (failure === undefined) return error;
    // The job is updated first, because operators take an open run that shows an error code for a parked one.
    await record.failed(failure).catch(ignoreFailure);
    showRunFailure(failure);
    return runFailure(failure, error);
  });
}

/**
 * Ignores that the end of a run could not be recorded, because the sweeper reads it from Temporal later. Throws errors
 * of workflow code.
 */
function ignoreFailure(error: unknown): void {
  if (toRunFailure(error) === undefined) throw error;
}

function runFailure({ code, message }: RunFailure, cause: unknown): ApplicationFailure {
  return ApplicationFailure.create({
    // Repeats the code in the message, because lists in the Temporal UI do not show the failure's type.
    message: `${code}: ${message}`,
    type: code,
    nonRetryable: true,
    ...(cause instanceof Error && { cause }),
  });
}
