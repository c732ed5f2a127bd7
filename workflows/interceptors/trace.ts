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
import { type RunSpan, spanIdOfRun, traceHeaderName, traceSinkName, withSpanId } from '#src/contracts/workflow-runs.ts';
import { failureOf } from '../failure.ts';

/** Told to the worker, which knows where traces go. */
export type TraceSinks = Sinks & { [traceSinkName]: { ended(span: RunSpan): void } };

const sinks = proxySinks<TraceSinks>();

/**
 * Takes the trace of whoever started a run to its steps and children. A run outside of every trace has no such header,
 * and nothing is done for it.
 */
export const interceptors: WorkflowInterceptorsFactory = () => {
  let trace: string | undefined;
  const withTrace = <Input extends { headers: Headers }>(input: Input): Input => {
    if (trace === undefined) return input;
    const own = withSpanId(trace, spanIdOfRun(workflowInfo().runId));
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
            sinks[traceSinkName].ended({
              workflowType,
              parent: given,
              spanId: spanIdOfRun(runId),
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
            // Any other error is one of our code: it stops the task and not the run.
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
  return isCancellation(error) ? 'cancelled' : (failureOf(error)?.code ?? 'internal_error');
}
