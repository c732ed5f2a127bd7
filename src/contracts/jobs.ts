import type { ScoreAlignmentInput } from './alignment.ts';
import type { IngestDocumentInput } from './ingestion.ts';

export type JobKind = 'ingest' | 'alignment';
export type JobStatus = 'queued' | 'running' | 'parked' | 'succeeded' | 'failed' | 'cancelled';

/**
 * What is needed to start a job's workflow, stored in its row until it is started. `summary` is the static line that
 * operators read in the Temporal UI; it names no content.
 */
export type WorkflowStart =
  | { workflow: 'ingestDocument'; input: IngestDocumentInput; summary: string }
  | { workflow: 'scoreAlignment'; input: ScoreAlignmentInput; summary: string };

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
