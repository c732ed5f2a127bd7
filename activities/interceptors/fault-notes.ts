import type { Context } from '@temporalio/activity';
import { ApplicationFailure } from '@temporalio/common';
import type { ActivityInterceptors } from '@temporalio/worker';
import { parseJobId } from '#src/contracts/workflow-ids.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';

/**
 * Tells clients why a step takes so long: what will be tried again shows in the job, whose id is the workflow's, as it
 * does in the Temporal UI. What ends or parks the run is the workflow's to record.
 */
export function noteFaults(jobs: Pick<JobsService, 'recordRetriedError'>) {
  return ({ info }: Context): ActivityInterceptors => ({
    inbound: {
      async execute(input, next) {
        try {
          return await next(input);
        } catch (error) {
          const workflowId = info.workflowExecution?.workflowId;
          if (workflowId !== undefined && error instanceof ApplicationFailure && isTriedAgain(error, info)) {
            const { type, message } = error;
            // That of a case is a part of its evaluation's.
            const { workflowId: jobId } = parseJobId(workflowId);
            // A database that is down cannot be told so.
            await jobs.recordRetriedError(jobId, { code: type ?? 'internal_error', message }).catch(() => undefined);
          }
          throw error;
        }
      },
    },
  });
}

function isTriedAgain({ nonRetryable }: ApplicationFailure, { attempt, retryPolicy }: Context['info']): boolean {
  const { maximumAttempts = 0 } = retryPolicy ?? {};
  return nonRetryable !== true && (maximumAttempts === 0 || attempt < maximumAttempts);
}
