/** The job attempt that started a workflow run; absent in workflow histories of older releases. */
export type JobAttempt = { attempt?: number | undefined; startId?: string | undefined };

/** Decides whether a workflow fails, retries or parks on an error; set per code in the error catalogue. */
export type ErrorClass = 'permanent' | 'transient' | 'operator';

/** First detail of an ApplicationFailure with a code of the error catalogue. Unexpected errors have no details. */
export type FailureDetails = { errorClass: ErrorClass };

export const stageQueryName = 'stage';

/** Updates of parked runs. `retry` returns once the job's row is updated; `skip` fails the run as `skipped`. */
export const retryUpdateName = 'retry';
export const skipUpdateName = 'skip';

export const taskQueues = {
  ingestion: 'ingestion',
  alignment: 'alignment',
  anchoring: 'anchoring',
  previews: 'previews',
  deletion: 'deletion',
  reembedding: 'reembedding',
  erasure: 'erasure',
  exports: 'exports',
  evaluation: 'evaluation',
  connectors: 'connectors',
  storeAudit: 'store-audit',
} as const;

export type TaskQueue = (typeof taskQueues)[keyof typeof taskQueues];

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

/** Derives the span id from the run id, because activities name the span as their parent before it is exported. */
export function spanIdOfRun(runId: string): string {
  return runId.replaceAll('-', '').slice(-16);
}

export function traceparentWithSpanId(trace: string, spanId: string): string {
  const [version, traceId, , flags] = trace.split('-');
  return [version, traceId, spanId, flags].join('-');
}

export const traceSinkName = 'tracing';
