/** Header of workflows and activities that propagates the W3C `traceparent`. */
export const traceHeaderName = 'traceparent';

/** The span of a run that has ended, passed from its workflow to the worker. */
export type RunSpan = {
  workflowType: string;
  parent: string;
  spanId: string;
  startMs: number;
  endMs: number;
  failure?: string;
};

/**
 * Derives the span id of a run from its random run id. Deterministic, because activities refer to the span as their parent
 * before it is exported at the end of the run.
 */
export function spanIdOfRun(runId: string): string {
  return runId.replaceAll('-', '').slice(-16);
}

/** Replaces the span id of a `traceparent`. */
export function withSpanId(trace: string, spanId: string): string {
  const [version, traceId, , flags] = trace.split('-');
  return [version, traceId, spanId, flags].join('-');
}

/** Name of the workflow sink for spans. */
export const traceSinkName = 'tracing';
