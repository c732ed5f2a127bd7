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
import type { AttemptOfJob, FailureDetails } from '#src/contracts/workflow-runs.ts';
import { showFailure } from './visibility.ts';

/** Why a step failed: a code of the error catalogue, and words for the person who reads them. */
export type Failure = { code: string; message: string };

/**
 * The fault at the root of what a workflow caught. Undefined for anything that is not a failure of a step: an error in
 * our own workflow code must stop the workflow task, to be repaired and resumed, and not the run.
 */
export function failureOf(error: unknown): Failure | undefined {
  if (!(error instanceof TemporalFailure)) return undefined;
  let cause: Error | undefined = error;
  while (cause instanceof TemporalFailure) {
    if (cause instanceof ApplicationFailure) return { code: cause.type ?? 'internal_error', message: cause.message };
    cause = cause.cause;
  }
  const step = error instanceof ActivityFailure ? error.activityType : 'a step';
  return { code: 'service_unavailable', message: `No worker finished ${step} within its time.` };
}

/** True for a step that waiting did not mend: its fault is one for an operator, or it was tried for a day. */
export function needsPerson(error: unknown): boolean {
  const step = error instanceof ChildWorkflowFailure ? stepOf(error) : error;
  if (!(step instanceof ActivityFailure)) return false;
  const { cause, retryState } = step;
  // Runs that began when a step had a day, whether it was tried or not, end their patience by time.
  if (retryState === 'MAXIMUM_ATTEMPTS_REACHED' || retryState === 'TIMEOUT' || cause instanceof TimeoutFailure)
    return true;
  return cause instanceof ApplicationFailure && isOperators(cause.details?.[0]);
}

/** The step that a part of the run has failed with. */
function stepOf(error: ChildWorkflowFailure): ActivityFailure | undefined {
  let cause: Error | undefined = error;
  while (cause instanceof TemporalFailure && !(cause instanceof ActivityFailure)) cause = cause.cause;
  return cause instanceof ActivityFailure ? cause : undefined;
}

/** True for a part of the run that somebody has terminated. */
export function wasEndedByForce({ cause }: ChildWorkflowFailure): boolean {
  return cause instanceof TerminatedFailure;
}

function isOperators(details: unknown): boolean {
  const { errorClass }: Partial<FailureDetails> = details ?? {};
  return errorClass === 'operator';
}

/**
 * Which attempt of its job started the run, as its memo says. What is recorded of its end belongs to that one: a worker
 * that was cut off may record it once more when the job is queued again.
 */
export function attemptOfJob(): AttemptOfJob {
  const { attempt, startId } = workflowInfo().memo ?? {};
  return {
    ...(typeof attempt === 'number' && { attempt }),
    ...(typeof startId === 'string' && { startId }),
  };
}

/**
 * Lets a run say why it ends before it ends, also when it was cancelled.
 * @param record writes the end into the run's job
 * @returns what to throw: it closes the run as cancelled, as failed with the code of its fault, or not at all
 */
export async function endOfRun(
  error: unknown,
  record: { cancelled: () => Promise<void>; failed: (failure: Failure) => Promise<void> },
): Promise<unknown> {
  // A step whose worker died can no longer say that it was cancelled: it times out.
  const isCancelled = isCancellation(error) || CancellationScope.current().consideredCancelled;
  return CancellationScope.nonCancellable(async () => {
    if (isCancelled) {
      setCurrentDetails('Cancelled.');
      await record.cancelled().catch(endAllTheSame);
      return new CancelledFailure('The run was cancelled.');
    }
    const failure = failureOf(error);
    if (failure === undefined) return error;
    // An open run with an error code waits for a person, and this one does not. Those that began before say it first.
    const recordsFirst = patched('record-before-code');
    if (!recordsFirst) showFailure(failure);
    await record.failed(failure).catch(endAllTheSame);
    if (recordsFirst) showFailure(failure);
    return runFailure(failure, error);
  });
}

/** The job, which could not be told, is brought in line with the closed run: it has to say the reason of its end. */
function endAllTheSame(error: unknown): void {
  if (failureOf(error) === undefined) throw error;
}

function runFailure({ code, message }: Failure, cause: unknown): ApplicationFailure {
  return ApplicationFailure.create({
    // The code is the type, too; but lists in the Temporal UI show the message only.
    message: `${code}: ${message}`,
    type: code,
    nonRetryable: true,
    ...(cause instanceof Error && { cause }),
  });
}
