/**
 * Workflow ids are readable and derived from what they work on, so that a repeated start has no effect and an id from a
 * response can be pasted into the Temporal UI. A job id is a workflow id, with `.<stage>` or `.<round>` if it names a
 * part of the workflow.
 */
export const ingestWorkflowId = (documentId: string, generation: number): string =>
  `ingest-${documentId}-${generation}`;

export const previewWorkflowId = (documentId: string, generation: number): string =>
  `preview-${documentId}-${generation}`;

export const anchorWordsWorkflowId = (agentId: string): string => `anchors-${agentId}`;

export const alignmentWorkflowId = (chatId: string): string => `alignment-${chatId}`;

export const deletionWorkflowId = (documentId: string): string => `delete-${documentId}`;

export const erasureWorkflowId = (id: string): string => `erase-${id}`;

export const exportWorkflowId = (exportId: string): string => `export-${exportId}`;

export const reembeddingWorkflowId = (orgId: string): string => `reembed-${orgId}`;

export const evaluationWorkflowId = (hash: string): string => `evaluate-${hash}`;

export const versionComparisonWorkflowId = (hash: string): string => `compare-${hash}`;

export const evaluationCaseWorkflowId = (runId: string, caseIndex: number): string =>
  jobIdOfWorkflowPart(runId, `case-${caseIndex + 1}`);

export const importWorkflowId = (runId: string): string => `import-${runId}`;

/** A connection has one sync at a time, and its Temporal Schedule has the same id. */
export const syncWorkflowId = (connectionId: string): string => `sync-${connectionId}`;

/** Workflow id of store audits that an operator starts; Temporal appends a timestamp for scheduled audits. */
export const auditWorkflowId = 'audit-stores';

export const jobIdOfWorkflowPart = (workflowId: string, part: string | number): string => `${workflowId}.${part}`;

export function parseJobId(jobId: string): { workflowId: string; part: string | null } {
  const dot = jobId.indexOf('.');
  return dot < 0 ? { workflowId: jobId, part: null } : { workflowId: jobId.slice(0, dot), part: jobId.slice(dot + 1) };
}
