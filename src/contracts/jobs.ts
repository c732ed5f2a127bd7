import type { ProposeAnchorWordsInput, ScoreAlignmentInput } from './alignment.ts';
import type { ImportRunInput } from './connectors.ts';
import type { DeleteDocumentInput, EraseContentInput } from './deletion.ts';
import type { EvaluationInput } from './evaluation.ts';
import type { ExportOrganizationInput } from './exports.ts';
import type { IngestDocumentRunInput, PreviewDocumentInput, ReembedOrganizationInput } from './ingestion.ts';

export type JobKind =
  | 'ingest'
  | 'alignment'
  | 'delete'
  | 'reembed'
  | 'erase'
  | 'anchors'
  | 'preview'
  | 'evaluate'
  | 'compare'
  | 'import'
  | 'sync'
  | 'export';
export const jobStatuses = ['queued', 'running', 'parked', 'succeeded', 'failed', 'cancelled'] as const;
export type JobStatus = (typeof jobStatuses)[number];

/** In the summary of a job, the place of the name of its document, chat, connection or agent. */
export const subjectInSummary = '{subject}';

/**
 * Workflow start in the job's row (transactional outbox). `summary` is shown in the Temporal UI: no user content except
 * by `subjectInSummary`, because a job outlives what it works on.
 */
export type WorkflowToStart = { summary: string; bulk?: boolean; traceparent?: string } & (
  | { workflow: 'ingestDocument'; input: IngestDocumentRunInput }
  | { workflow: 'scoreAlignment'; input: ScoreAlignmentInput }
  | { workflow: 'deleteDocument'; input: DeleteDocumentInput }
  | { workflow: 'reembedOrganization'; input: ReembedOrganizationInput }
  | { workflow: 'eraseContent'; input: EraseContentInput }
  | { workflow: 'proposeAnchorWords'; input: ProposeAnchorWordsInput }
  | { workflow: 'previewDocument'; input: PreviewDocumentInput }
  | { workflow: 'evaluateVersion'; input: EvaluationInput }
  | { workflow: 'compareVersions'; input: EvaluationInput }
  | { workflow: 'importFromConnector'; input: ImportRunInput }
  | { workflow: 'syncConnection'; input: ImportRunInput }
  | { workflow: 'exportOrganization'; input: ExportOrganizationInput }
);

export const unstoppableJobKinds: readonly JobKind[] = ['delete', 'erase'];

/** Temporal search attributes of type Keyword. Workflows update `Stage` and `ErrorCode`; the others are set once. */
export const searchAttributeNames = [
  'OrgId',
  'DocumentId',
  'ConnectionId',
  'AgentId',
  'ChatId',
  'JobKind',
  'Stage',
  'ErrorCode',
] as const;

export type SearchAttributeName = (typeof searchAttributeNames)[number];
