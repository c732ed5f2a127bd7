import type { Context } from '@temporalio/activity';
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common';
import type { ActivityInterceptors } from '@temporalio/worker';
import { parseJobId } from '#src/contracts/workflow-ids.ts';
import type { FailureDetails } from '#src/contracts/workflow-runs.ts';
import { AppError } from '#src/errors.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';

export function mapErrorsToTemporalFailures(context: Context): ActivityInterceptors {
  return {
    inbound: {
      async execute(input, next) {
        try {
          return await next(input);
        } catch (error) {
          throw toFailure(error, context);
        }
      },
    },
  };
}

function toFailure(error: unknown, context: Context): unknown {
  const { cancellationSignal, info, log } = context;
  if (cancellationSignal.aborted) return cancellationSignal.reason;
  if (error instanceof ApplicationFailure) return error;
  if (error instanceof AppError) {
    const { code, message, status, errorClass, retryAfterSeconds = 0 } = error;
    return ApplicationFailure.create({
      message,
      type: code,
      nonRetryable: errorClass !== 'transient',
      details: [{ errorClass } satisfies FailureDetails],
      // Temporal reads a delay of zero as "no further attempts".
      ...(retryAfterSeconds > 0 && { nextRetryDelay: `${retryAfterSeconds} seconds` }),
      // Faults in user content, such as a damaged file, are expected and not logged as errors; a lost original is.
      ...(errorClass === 'permanent' && status < 500 && { category: ApplicationFailureCategory.BENIGN }),
    });
  }
  // Logs the error here, because its message may contain SQL or document text, which must not be stored in a workflow
  // history.
  log.error('activity failed with an unexpected error', { error });
  const name = error instanceof Error ? error.name : typeof error;
  return ApplicationFailure.create({
    message: `${info.activityType} failed with ${name}; see the log of the worker.`,
    type: 'internal_error',
  });
}

/**
 * Shows the error of a failed activity in the job while Temporal retries the activity. Errors that end or park the run
 * are recorded by the workflow.
 */
export function recordRetriedErrors(jobs: Pick<JobsService, 'recordRetriedError'>) {
  return ({ info }: Context): ActivityInterceptors => ({
    inbound: {
      async execute(input, next) {
        try {
          return await next(input);
        } catch (error) {
          const workflowId = info.workflowExecution?.workflowId;
          if (workflowId !== undefined && error instanceof ApplicationFailure && isRetried(error, info)) {
            const { type, message } = error;
            // The child workflow of a golden case or imported file has no job of its own, so its errors are shown in
            // its parent's job.
            const { workflowId: jobId } = parseJobId(workflowId);
            // A failed update of the job is ignored, because Postgres may be the service that is unavailable.
            await jobs.recordRetriedError(jobId, { code: type ?? 'internal_error', message }).catch(() => undefined);
          }
          throw error;
        }
      },
    },
  });
}

function isRetried({ nonRetryable }: ApplicationFailure, { attempt, retryPolicy }: Context['info']): boolean {
  const { maximumAttempts = 0 } = retryPolicy ?? {};
  return nonRetryable !== true && (maximumAttempts === 0 || attempt < maximumAttempts);
}
