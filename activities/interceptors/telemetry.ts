import type { Context } from '@temporalio/activity';
import { ApplicationFailure, CancelledFailure, defaultPayloadConverter } from '@temporalio/common';
import type { ActivityInterceptors } from '@temporalio/worker';
import { parseJobId } from '#src/contracts/workflow-ids.ts';
import { traceHeaderName } from '#src/contracts/workflow-runs.ts';
import type { Telemetry } from '#src/ports/telemetry.ts';

/**
 * Measures activity attempts and records spans. Runs outside `mapErrorsToTemporalFailures`, because metrics and spans
 * need the error codes of the converted failures.
 */
export function observeActivities({ metrics, tracing }: Telemetry) {
  return ({ info }: Context): ActivityInterceptors => ({
    inbound: {
      async execute(input, next) {
        const { activityType: activity, attempt } = info;
        const startedMs = performance.now();
        const header = input.headers[traceHeaderName];
        const trace: unknown = header && defaultPayloadConverter.fromPayload(header);
        const span = typeof trace === 'string' ? tracing.start(spanOf(info, input.args, trace)) : undefined;
        const end = (failure?: string) => {
          span?.end(failure);
          const seconds = (performance.now() - startedMs) / 1_000;
          const outcome = failure === undefined || failure === 'cancelled' ? (failure ?? 'ok') : 'failed';
          metrics.time('acs_activity_duration_seconds', { activity, outcome }, seconds);
          if (outcome === 'failed') metrics.count('acs_activity_failures_total', { activity, code: failure ?? '' });
        };
        if (attempt > 1) metrics.count('acs_activity_retries_total', { activity });
        try {
          const result = await (span === undefined ? next(input) : span.run(() => next(input)));
          end();
          return result;
        } catch (error) {
          end(codeOf(error));
          throw error;
        }
      },
    },
  });
}

function spanOf(info: Context['info'], [input]: readonly unknown[], parent: string) {
  const { activityType, attempt, workflowExecution, taskQueue } = info;
  // Activity inputs hold only ids and counts, never content, so a span may show their `orgId` and `documentId`.
  const { orgId, documentId } = Object(input) as { orgId?: string; documentId?: string };
  const workflowId = workflowExecution?.workflowId;
  return {
    name: `RunActivity ${activityType}`,
    kind: 'consumer' as const,
    parent,
    attributes: {
      'acs.job_id': workflowId && parseJobId(workflowId).workflowId,
      'acs.org_id': orgId,
      'acs.document_id': documentId,
      'temporal.workflow_id': workflowId,
      'temporal.run_id': workflowExecution?.runId,
      'temporal.attempt': attempt,
      'messaging.destination.name': taskQueue,
    },
  };
}

function codeOf(error: unknown): string {
  if (error instanceof CancelledFailure) return 'cancelled';
  return (error instanceof ApplicationFailure ? error.type : undefined) ?? 'internal_error';
}
