import { model } from '#src/adapters/postgres/base-model.ts';
import { bigint, integer, json, type Row, shape, text, timestamp, uuid } from '#src/adapters/postgres/shapes.ts';
import { JobModel } from '#src/modules/jobs/jobs.model.ts';

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
    /** Lower-case hex. */
    sha256: text(),
    records: json<RecordCounts>(),
    /** Null in the last one. */
    nextPlace: json<ExportPlace>().nullable(),
    createdAt: timestamp(),
  },
  ['exportId', 'number'],
) {}

/** Behind which row of which kind a volume goes on. `after` has the row's keys as text; null at the beginning of a kind. */
export type ExportPlace = { kind: string; after: readonly string[] | null };

/** How many records of each kind. */
export type RecordCounts = Readonly<Record<string, number>>;

export type ExportRow = Row<typeof ExportModel>;

/** What is null of its job where there is none of it any more. */
export const exportWithJob = shape({
  ...ExportModel.columns,
  jobStatus: JobModel.columns.status.nullable(),
  errorCode: text().nullable(),
  errorMessage: text().nullable(),
  progressDone: integer(),
  progressTotal: integer().nullable(),
});

export type ExportVolume = Omit<Row<typeof ExportVolumeModel>, 'orgId' | 'exportId' | 'createdAt'>;

export type ExportWithJob = Row<typeof exportWithJob> & { volumes: ExportVolume[] };

/** Of a volume that is about to be made. */
export type VolumeFacts = Pick<ExportVolume, 'number' | 'sizeBytes' | 'sha256' | 'records'>;

export const volumeName = (exportId: string, number: number): string =>
  `export-${exportId}-${String(number).padStart(4, '0')}.zip`;
