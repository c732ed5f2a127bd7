import type { ScoreAlignmentInput } from './alignment.ts';
import type { ProposeAnchorWordsInput } from './anchoring.ts';
import type { ImportRunInput } from './connectors.ts';
import type { DeleteDocumentInput } from './deletion.ts';
import type { EraseContentInput } from './erasure.ts';
import type { EvaluationInput } from './evaluation.ts';
import type { ExportOrganizationInput } from './exports.ts';
import type { IngestDocumentRun } from './ingestion.ts';
import type { PreviewDocumentInput } from './previews.ts';
import type { ReembedOrganizationInput } from './reembedding.ts';

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
export type JobStatus = 'queued' | 'running' | 'parked' | 'succeeded' | 'failed' | 'cancelled';

/**
 * What is needed to start a job's workflow, stored in its row until it is started. `summary` is the static line that
 * operators read in the Temporal UI; it names no content. `bulk` work comes after what somebody waits for. `traceparent`:
 * the trace of the request that asked for it, whoever starts it in the end.
 */
export type WorkflowStart = { summary: string; bulk?: boolean; traceparent?: string } & (
  | { workflow: 'ingestDocument'; input: IngestDocumentRun }
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

/** What was begun is done: their runs go on whatever they are asked. */
export const unstoppableKinds: readonly JobKind[] = ['delete', 'erase'];

/** Which attempt of its job started a run; absent in runs that nobody told. */
export type AttemptOfJob = { attempt?: number | undefined; startId?: string | undefined };

/** Search attributes, all Keyword, set at the start and upserted by workflows (`Stage`, `ErrorCode`). */
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
