import type { Context } from '@temporalio/activity';
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common';
import type { ActivityInterceptors } from '@temporalio/worker';
import type { FailureDetails } from '#src/contracts/workflow-runs.ts';
import { AppError } from '#src/errors.ts';

/** The one place where what an activity throws becomes what the engine, and an operator, understands. */
export function mapErrors(context: Context): ActivityInterceptors {
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
      // The engine takes a delay of zero for "no more attempts".
      ...(retryAfterSeconds > 0 && { nextRetryDelay: `${retryAfterSeconds} seconds` }),
      // A damaged file is the user's news and not a fault of the service; a lost original is one.
      ...(errorClass === 'permanent' && status < 500 && { category: ApplicationFailureCategory.BENIGN }),
    });
  }
  // Its text may hold SQL or a piece of a document, which have no place in a history.
  log.error('an activity failed for an unknown reason', { error });
  const name = error instanceof Error ? error.name : typeof error;
  return ApplicationFailure.create({
    message: `${info.activityType} failed with ${name}; the log of the worker says more.`,
    type: 'internal_error',
  });
}
