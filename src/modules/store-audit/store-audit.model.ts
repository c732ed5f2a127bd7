import { bigint, boolean, integer, integerArray, type Row } from '#src/adapters/postgres/columns.ts';
import { pick, shape } from '#src/adapters/postgres/shapes.ts';
import type { FindingKind } from '#src/domain/audit-report.ts';
import { DocumentModel } from '#src/modules/documents/documents.model.ts';
import { JobModel } from '#src/modules/jobs/jobs.model.ts';

/** A difference between the stores. `id` is a document's, or the key of an original. */
export type Finding = { kind: FindingKind; orgId: string; id: string; generation?: number; detail: string };

export type InspectedPage = { checked: number; findings: Finding[]; next: string | null };

export const activeDocument = shape({
  ...pick(DocumentModel, 'orgId', 'id', 'generation', 'activeGeneration', 'blobKey').columns,
  chunksTotal: integer().nullable(),
  chunks: bigint(),
  firstIndex: integer().nullable(),
  lastIndex: integer().nullable(),
  /** Generations that have rows and that nobody needs. */
  orphanGenerations: integerArray(),
});
/** A document with a generation that readers see, as Postgres has it. */
export type ActiveDocument = Row<typeof activeDocument>;

/** Which generations of a document may have points. */
export const keptGenerations = shape({
  ...pick(DocumentModel, 'orgId', 'id', 'generation', 'activeGeneration').columns,
  isSettled: boolean(),
});

export const pendingDeletion = shape({ ...pick(DocumentModel, 'orgId', 'id').columns, isLost: boolean() });

export const deletionRequest = pick(JobModel, 'createdBy', 'acl', 'requestId');
