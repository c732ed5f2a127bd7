import { ActivityFailure, ApplicationFailure, TemporalFailure } from '@temporalio/workflow';

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

/** What closes the run as Failed, with the code on top where operators look first. */
export function runFailure(failure: Failure, cause: unknown): ApplicationFailure {
  return ApplicationFailure.create({
    message: failure.message,
    type: failure.code,
    nonRetryable: true,
    ...(cause instanceof Error && { cause }),
  });
}
