import type { FindingKind } from '#src/domain/audit-report.ts';
import type { IngestibleDocument } from '#src/modules/ingestion/generations.service.ts';

/** A difference between the stores. `id` is a document's, or the key of an original. */
export type Finding = { kind: FindingKind; orgId: string; id: string; generation?: number; detail: string };

export type InspectedPage = { checked: number; findings: Finding[]; next: string | null };

/** A document with a generation that readers see, as Postgres has it. */
export type ActiveDocument = {
  orgId: string;
  id: string;
  generation: number;
  activeGeneration: number | null;
  blobKey: string;
  chunksTotal: number | null;
  chunks: number;
  firstIndex: number | null;
  lastIndex: number | null;
  /** Generations that have rows and that nobody needs. */
  orphanGenerations: number[];
};

/** Which generations of a document may have points. */
export type KeptGenerations = { generation: number; activeGeneration: number | null; isSettled: boolean };

export type PendingDeletion = { orgId: string; id: string; isLost: boolean };

export type IngestibleRow = IngestibleDocument & { updatedBy: string };
