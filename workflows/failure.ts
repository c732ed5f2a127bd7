import {
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  CancelledFailure,
  ChildWorkflowFailure,
  isCancellation,
  patched,
  setCurrentDetails,
  TemporalFailure,
  TerminatedFailure,
  TimeoutFailure,
  workflowInfo,
} from '@temporalio/workflow';
import type { FailureDetails, JobAttempt } from '#src/contracts/workflow-runs.ts';
import { showFailure } from './visibility.ts';

/** Why an activity failed: a code of the error catalogue, and a message for users and operators. */
export type RunFailure = { code: string; message: string };

/**
 * @returns the root cause of an error that a workflow caught; undefined for an error in workflow code, which must fail the
 * workflow task and not the run, so that the run continues after a fix
 */
export function failureOf(error: unknown): RunFailure | undefined {
  if (!(error instanceof TemporalFailure)) return undefined;
  let cause: Error | undefined = error;
  while (cause instanceof TemporalFailure) {
    if (cause instanceof ApplicationFailure) return { code: cause.type ?? 'internal_error', message: cause.message };
    cause = cause.cause;
  }
  const step = error instanceof ActivityFailure ? error.activityType : 'a step';
  return { code: 'service_unavailable', message: `No worker finished ${step} within its time limit.` };
}

/** True if an operator has to fix the cause of an activity's failure, or its attempts are exhausted. */
export function needsOperator(error: unknown): boolean {
  const step = error instanceof ChildWorkflowFailure ? stepOf(error) : error;
  if (!(step instanceof ActivityFailure)) return false;
  const { cause, retryState } = step;
  // Runs that started when activities had a time limit of one day instead of a number of attempts end with TIMEOUT.
  if (retryState === 'MAXIMUM_ATTEMPTS_REACHED' || retryState === 'TIMEOUT' || cause instanceof TimeoutFailure)
    return true;
  return cause instanceof ApplicationFailure && isForOperator(cause.details?.[0]);
}

/** @returns the activity failure that a child workflow failed with */
function stepOf(error: ChildWorkflowFailure): ActivityFailure | undefined {
  let cause: Error | undefined = error;
  while (cause instanceof TemporalFailure && !(cause instanceof ActivityFailure)) cause = cause.cause;
  return cause instanceof ActivityFailure ? cause : undefined;
}

export function wasTerminated({ cause }: ChildWorkflowFailure): boolean {
  return cause instanceof TerminatedFailure;
}

function isForOperator(details: unknown): boolean {
  const { errorClass }: Partial<FailureDetails> = details ?? {};
  return errorClass === 'operator';
}

/**
 * Reads from the memo which attempt of its job started the run. The end of a run is recorded for this attempt only, because
 * a late worker may record it again after the job was retried.
 */
export function attemptOfJob(): JobAttempt {
  const { attempt, startId } = workflowInfo().memo ?? {};
  return {
    ...(typeof attempt === 'number' && { attempt }),
    ...(typeof startId === 'string' && { startId }),
  };
}

/**
 * Records why a run ends, even if it was cancelled.
 * @param record writes the end into the job of the run
 * @returns the error to throw: it closes the run as cancelled or failed; an error in workflow code does not close it
 */
export async function recordEndOfRun(
  error: unknown,
  record: { cancelled: () => Promise<void>; failed: (failure: RunFailure) => Promise<void> },
): Promise<unknown> {
  // An activity whose worker died times out instead of reporting its cancellation.
  const isCancelled = isCancellation(error) || CancellationScope.current().consideredCancelled;
  return CancellationScope.nonCancellable(async () => {
    if (isCancelled) {
      setCurrentDetails('Cancelled.');
      await record.cancelled().catch(ignoreFailure);
      return new CancelledFailure('The run was cancelled.');
    }
    const failure = failureOf(error);
    if (failure === undefined) return error;
    // Operators read an open run with an error code as parked, so the code is shown last. Older runs showed it first.
    const recordsFirst = patched('record-before-code');
    if (!recordsFirst) showFailure(failure);
    await record.failed(failure).catch(ignoreFailure);
    if (recordsFirst) showFailure(failure);
    return runFailure(failure, error);
  });
}

/** If the end cannot be recorded, the sweeper reads it from the closed run. */
function ignoreFailure(error: unknown): void {
  if (failureOf(error) === undefined) throw error;
}

function runFailure({ code, message }: RunFailure, cause: unknown): ApplicationFailure {
  return ApplicationFailure.create({
    // The code is repeated in the message, because lists in the Temporal UI do not show the type.
    message: `${code}: ${message}`,
    type: code,
    nonRetryable: true,
    ...(cause instanceof Error && { cause }),
  });
}
