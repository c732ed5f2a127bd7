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
    sha256: text(),
    records: json<RecordCountsByKind>(),
    nextPlace: json<ExportPosition>().nullable(),
    createdAt: timestamp(),
  },
  ['exportId', 'number'],
) {}

/**
 * Where the next volume of an export begins: after the row of the record kind `kind` that has the key values `after`;
 * null stands for the first row.
 */
export type ExportPosition = { kind: string; after: readonly string[] | null };

export type RecordCountsByKind = Readonly<Record<string, number>>;

export type ExportRow = Row<typeof ExportModel>;

/**
 * Row of an export with the columns of its job. The job's columns are null, or 0, if the export was restored from a
 * backup without its job.
 */
export const exportWithJobShape = shape({
  ...ExportModel.columns,
  jobStatus: JobModel.columns.status.nullable(),
  errorCode: text().nullable(),
  errorMessage: text().nullable(),
  progressDone: integer(),
  progressTotal: integer().nullable(),
});

export type ExportVolume = Omit<Row<typeof ExportVolumeModel>, 'orgId' | 'exportId' | 'createdAt'>;

export type ExportWithJob = Row<typeof exportWithJobShape> & { volumes: ExportVolume[] };

export type ExportVolumeSummary = Pick<ExportVolume, 'number' | 'sizeBytes' | 'sha256' | 'records'>;

export const exportVolumeName = (exportId: string, number: number): string =>
  `export-${exportId}-${String(number).padStart(4, '0')}.zip`;
