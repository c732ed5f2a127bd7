import {
  ContinueAsNew,
  defaultPayloadConverter,
  type Headers,
  isCancellation,
  proxySinks,
  type Sinks,
  TemporalFailure,
  type WorkflowInterceptorsFactory,
  workflowInfo,
} from '@temporalio/workflow';
import {
  spanIdOfWorkflowRun,
  traceHeaderName,
  traceparentWithSpanId,
  type WorkflowRunSpan,
  workflowTraceSinkName,
} from '#src/contracts/workflow-runs.ts';
import { toRunFailure } from '../failure.ts';

/** The worker implements this sink, because workflow code cannot export spans. */
export type TraceSinks = Sinks & { [workflowTraceSinkName]: { ended(span: WorkflowRunSpan): void } };

const sinks = proxySinks<TraceSinks>();

/** Passes the trace of the starting request to activities and child workflows, if the run has one. */
export const interceptors: WorkflowInterceptorsFactory = () => {
  let trace: string | undefined;
  const withTrace = <Input extends { headers: Headers }>(input: Input): Input => {
    if (trace === undefined) return input;
    const own = traceparentWithSpanId(trace, spanIdOfWorkflowRun(workflowInfo().runId));
    return { ...input, headers: { ...input.headers, [traceHeaderName]: defaultPayloadConverter.toPayload(own) } };
  };

  return {
    inbound: [
      {
        async execute(input, next) {
          const header = input.headers[traceHeaderName];
          const given: unknown = header && defaultPayloadConverter.fromPayload(header);
          if (typeof given !== 'string') return next(input);
          trace = given;
          const { workflowType, runId, runStartTime } = workflowInfo();
          const end = (failure?: string) =>
            sinks[workflowTraceSinkName].ended({
              workflowType,
              parent: given,
              spanId: spanIdOfWorkflowRun(runId),
              startMs: runStartTime.getTime(),
              endMs: Date.now(),
              ...(failure !== undefined && { failure }),
            });
          try {
            const result = await next(input);
            end();
            return result;
          } catch (error) {
            if (error instanceof ContinueAsNew) end();
            // An error other than `TemporalFailure` comes from workflow code and keeps the run open, so its span is not
            // ended.
            else if (error instanceof TemporalFailure) end(wordFor(error));
            throw error;
          }
        },
      },
    ],
    outbound: [
      {
        scheduleActivity: (input, next) => next(withTrace(input)),
        startChildWorkflowExecution: (input, next) => next(withTrace(input)),
        continueAsNew: (input, next) => next(withTrace(input)),
      },
    ],
  };
};

function wordFor(error: TemporalFailure): string {
  return isCancellation(error) ? 'cancelled' : (toRunFailure(error)?.code ?? 'internal_error');
}
