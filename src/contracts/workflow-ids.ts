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

/** @param id of a user or an organization */
export const erasureWorkflowId = (id: string): string => `erase-${id}`;

export const exportWorkflowId = (exportId: string): string => `export-${exportId}`;

export const reembeddingWorkflowId = (orgId: string): string => `reembed-${orgId}`;

/** @param hash of the organization and the specification of the evaluation */
export const evaluationWorkflowId = (hash: string): string => `evaluate-${hash}`;

export const comparisonWorkflowId = (hash: string): string => `compare-${hash}`;

/** Child workflow of one case; numbered from 1. */
export const caseWorkflowId = (runId: string, caseIndex: number): string => jobPartId(runId, `case-${caseIndex + 1}`);

export const importWorkflowId = (runId: string): string => `import-${runId}`;

/** One sync at a time per connection. Also the id of its schedule. */
export const syncWorkflowId = (connectionId: string): string => `sync-${connectionId}`;

/** Audits started by an operator; those of the schedule have a timestamp appended. */
export const auditWorkflowId = 'audit-stores';

export const jobPartId = (workflowId: string, part: string | number): string => `${workflowId}.${part}`;

/** Splits `ingest-…-1.chunk` into workflow id and part. */
export function parseJobId(jobId: string): { workflowId: string; part: string | null } {
  const dot = jobId.indexOf('.');
  return dot < 0 ? { workflowId: jobId, part: null } : { workflowId: jobId.slice(0, dot), part: jobId.slice(dot + 1) };
}
