/**
 * Workflow ids are readable and follow from what they work on, so that a start can be repeated and an id from an answer
 * can be pasted into the Temporal UI. A job id is a workflow id, with `.<stage>` or `.<round>` where it names a part.
 */
export const ingestWorkflowId = (documentId: string, generation: number): string =>
  `ingest-${documentId}-${generation}`;

/** Of how the original of a generation looks on paper. */
export const previewWorkflowId = (documentId: string, generation: number): string =>
  `preview-${documentId}-${generation}`;

/** Of the words that are proposed for an agent. */
export const anchoringWorkflowId = (agentId: string): string => `anchors-${agentId}`;

export const alignmentWorkflowId = (chatId: string): string => `alignment-${chatId}`;

export const deletionWorkflowId = (documentId: string): string => `delete-${documentId}`;

/** Of a user or an organization. */
export const erasureWorkflowId = (id: string): string => `erase-${id}`;

export const exportWorkflowId = (exportId: string): string => `export-${exportId}`;

export const reembeddingWorkflowId = (orgId: string): string => `reembed-${orgId}`;

/** Of an organization and all that it wants to know, as a hash. */
export const evaluationWorkflowId = (hash: string): string => `evaluate-${hash}`;

export const comparisonWorkflowId = (hash: string): string => `compare-${hash}`;

/** Of the run of one case; cases count from 1. */
export const caseWorkflowId = (runId: string, caseIndex: number): string => jobPartId(runId, `case-${caseIndex + 1}`);

export const importWorkflowId = (runId: string): string => `import-${runId}`;

/** One at a time for each connection; the same is the id of the schedule. */
export const syncWorkflowId = (connectionId: string): string => `sync-${connectionId}`;

/** Of an audit that somebody asks for; those of the schedule have their time behind it. */
export const auditWorkflowId = 'audit-stores';

export const jobPartId = (workflowId: string, part: string | number): string => `${workflowId}.${part}`;

/** `ingest-…-1.chunk` → its workflow id and the part it names, if any. */
export function parseJobId(jobId: string): { workflowId: string; part: string | null } {
  const dot = jobId.indexOf('.');
  return dot < 0 ? { workflowId: jobId, part: null } : { workflowId: jobId.slice(0, dot), part: jobId.slice(dot + 1) };
}
