/** The attempt of the job that started a workflow run; missing in workflow histories of older releases. */
export type JobAttempt = { attempt?: number | undefined; startId?: string | undefined };

/** Decides whether a workflow fails, retries or parks on an error. The error catalogue sets it for each error code. */
export type ErrorClass = 'permanent' | 'transient' | 'operator';

/**
 * First item in the `details` of an ApplicationFailure whose type is an error code; unexpected errors have no such
 * item.
 */
export type FailureDetails = { errorClass: ErrorClass };

export const stageQueryName = 'stage';

/** Updates of parked runs. `retry` returns once the job's row is updated; `skip` fails the run with `skipped`. */
export const retryUpdateName = 'retry';
export const skipUpdateName = 'skip';

export const taskQueues = {
  /** All workflows: each worker that runs workflows has a thread with the whole workflow code. */
  workflows: 'workflows',
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

/** The queue of a workflow's activities. */
export const activityQueues = {
  ingestDocument: taskQueues.ingestion,
  scoreAlignment: taskQueues.alignment,
  deleteDocument: taskQueues.deletion,
  reembedOrganization: taskQueues.reembedding,
  proposeAnchorWords: taskQueues.anchoring,
  previewDocument: taskQueues.previews,
  eraseContent: taskQueues.erasure,
  evaluateVersion: taskQueues.evaluation,
  evaluateCase: taskQueues.evaluation,
  compareVersions: taskQueues.evaluation,
  importFromConnector: taskQueues.connectors,
  importFile: taskQueues.connectors,
  syncConnection: taskQueues.connectors,
  queueSync: taskQueues.connectors,
  exportOrganization: taskQueues.exports,
  auditStores: taskQueues.storeAudit,
  cleanUp: taskQueues.erasure,
} as const satisfies Record<string, TaskQueue>;

export type WorkflowType = keyof typeof activityQueues;

/** Stage in which a run begins. It is a search attribute of the start, which saves an event of the history. */
export const firstStages: Partial<Record<WorkflowType, string>> = {
  ingestDocument: 'parse',
  scoreAlignment: 'score',
  deleteDocument: 'stop',
  reembedOrganization: 'reembed',
  proposeAnchorWords: 'propose',
  previewDocument: 'render',
  evaluateVersion: 'plan',
  compareVersions: 'plan',
  importFromConnector: 'list',
  syncConnection: 'list',
  exportOrganization: 'count',
};

export const traceHeaderName = 'traceparent';

/** Trace span of a workflow run that has ended; the workflow passes it to the worker, which exports it. */
export type WorkflowRunSpan = {
  workflowType: string;
  parent: string;
  spanId: string;
  startMs: number;
  endMs: number;
  failure?: string;
};

/**
 * Derives the id of a run's span from the run id, because activities name that span as their parent before the span is
 * exported.
 */
export function spanIdOfWorkflowRun(runId: string): string {
  return runId.replaceAll('-', '').slice(-16);
}

export function traceparentWithSpanId(trace: string, spanId: string): string {
  const [version, traceId, , flags] = trace.split('-');
  return [version, traceId, spanId, flags].join('-');
}

export const workflowTraceSinkName = 'tracing';
