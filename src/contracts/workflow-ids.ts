/**
 * Workflow ids are readable and derived from their subject, so that starts are idempotent and an id from a response can
 * be pasted into the Temporal UI. A job id is a workflow id, with `.<stage>` or `.<round>` if it names a part.
 */
export const ingestWorkflowId = (documentId: string, generation: number): string =>
  `ingest-${documentId}-${generation}`;

export const previewWorkflowId = (documentId: string, generation: number): string =>
  `preview-${documentId}-${generation}`;

export const anchoringWorkflowId = (agentId: string): string => `anchors-${agentId}`;

export const alignmentWorkflowId = (chatId: string): string => `alignment-${chatId}`;

export const deletionWorkflowId = (documentId: string): string => `delete-${documentId}`;

export const erasureWorkflowId = (id: string): string => `erase-${id}`;

export const exportWorkflowId = (exportId: string): string => `export-${exportId}`;

export const reembeddingWorkflowId = (orgId: string): string => `reembed-${orgId}`;

export const evaluationWorkflowId = (hash: string): string => `evaluate-${hash}`;

export const comparisonWorkflowId = (hash: string): string => `compare-${hash}`;

export const evaluationCaseWorkflowId = (runId: string, caseIndex: number): string =>
  jobPartId(runId, `case-${caseIndex + 1}`);

export const importWorkflowId = (runId: string): string => `import-${runId}`;

/** A connection has one sync at a time. Its schedule has the same id. */
export const syncWorkflowId = (connectionId: string): string => `sync-${connectionId}`;

/** Workflow id of audits that an operator starts; scheduled audits have a timestamp appended. */
export const auditWorkflowId = 'audit-stores';

export const jobPartId = (workflowId: string, part: string | number): string => `${workflowId}.${part}`;

/** Splits `ingest-…-1.chunk` into workflow id and part. */
export function parseJobId(jobId: string): { workflowId: string; part: string | null } {
  const dot = jobId.indexOf('.');
  return dot < 0 ? { workflowId: jobId, part: null } : { workflowId: jobId.slice(0, dot), part: jobId.slice(dot + 1) };
}
