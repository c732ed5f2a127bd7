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
 * Start of a job's workflow, stored in its row (outbox). `summary` is the static summary in the Temporal UI; it contains no
 * user content. `bulk` work has a lower priority. `traceparent` is the trace of the request that created the job.
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

/** Runs of these kinds cannot be cancelled. */
export const unstoppableKinds: readonly JobKind[] = ['delete', 'erase'];

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
