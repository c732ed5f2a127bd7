/** The header of runs and steps in which their trace goes along, as W3C writes it. */
export const traceHeaderName = 'traceparent';

/** A run that has ended, as its workflow tells a worker: the span's id is made of the run's. */
export type RunSpan = {
  workflowType: string;
  parent: string;
  spanId: string;
  startMs: number;
  endMs: number;
  failure?: string;
};

/**
 * The id of a run's span, the same whenever it is asked for: the run's own random digits. Steps name it as their parent
 * long before the span is sent, at the run's end.
 */
export function spanIdOfRun(runId: string): string {
  return runId.replaceAll('-', '').slice(-16);
}

/** `trace` with another span of it. */
export function withSpanId(trace: string, spanId: string): string {
  const [version, traceId, , flags] = trace.split('-');
  return [version, traceId, spanId, flags].join('-');
}

/** What a workflow tells beyond its run; nothing comes back. */
export const traceSinkName = 'tracing';
