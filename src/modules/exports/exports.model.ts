import { model } from '#src/adapters/postgres/base-model.ts';
import { bigint, integer, json, text, timestamp, uuid } from '#src/adapters/postgres/columns.ts';

export class ExportModel extends model('exports', {
  id: uuid(),
  orgId: uuid(),
  createdBy: uuid(),
  createdAt: timestamp(),
  completedAt: timestamp().nullable(),
  expiresAt: timestamp(),
}) {}

export class ExportVolumeModel extends model(
  'export_volumes',
  {
    orgId: uuid(),
    exportId: uuid(),
    number: integer(),
    blobKey: text(),
    sizeBytes: bigint(),
    sha256: text(),
    records: json<RecordCounts>(),
    nextPlace: json<ExportPlace>().nullable(),
    createdAt: timestamp(),
  },
  ['exportId', 'number'],
) {}

/** Behind which row of which kind a volume goes on. `after` has the row's keys as text; null at the beginning of a kind. */
export type ExportPlace = { kind: string; after: readonly string[] | null };

/** How many records of each kind. */
export type RecordCounts = Readonly<Record<string, number>>;

export type ExportRow = {
  id: string;
  orgId: string;
  createdBy: string;
  createdAt: Date;
  completedAt: Date | null;
  expiresAt: Date;
};

export type ExportVolume = {
  number: number;
  blobKey: string;
  sizeBytes: number;
  /** Lower-case hex. */
  sha256: string;
  records: RecordCounts;
  /** Null in the last one. */
  nextPlace: ExportPlace | null;
};

/** Of a volume that is about to be made. */
export type VolumeFacts = Pick<ExportVolume, 'number' | 'sizeBytes' | 'sha256' | 'records'>;

export const volumeName = (exportId: string, number: number): string =>
  `export-${exportId}-${String(number).padStart(4, '0')}.zip`;
