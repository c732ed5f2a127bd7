import { tableModel } from '#src/adapters/postgres/base-model.ts';
import {
  bigintColumn,
  defineRowShape,
  integerColumn,
  jsonColumn,
  type SqlRow,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import { JobModel } from '#src/modules/jobs/jobs.model.ts';

export class ExportModel extends tableModel('exports', {
  id: uuidColumn(),
  orgId: uuidColumn(),
  createdBy: uuidColumn(),
  createdAt: timestampColumn(),
  completedAt: timestampColumn().nullable(),
  expiresAt: timestampColumn(),
}) {}

export class ExportVolumeModel extends tableModel(
  'export_volumes',
  {
    orgId: uuidColumn(),
    exportId: uuidColumn(),
    number: integerColumn(),
    blobKey: textColumn(),
    sizeBytes: bigintColumn(),
    sha256: textColumn(),
    records: jsonColumn<RecordCountsByKind>(),
    nextPlace: jsonColumn<ExportRecordPosition>().nullable(),
    createdAt: timestampColumn(),
  },
  ['exportId', 'number'],
) {}

/**
 * Position where the next volume of an export begins: after the row of record kind `kind` with the key values `after`,
 * or at the kind's first row if `after` is null.
 */
export type ExportRecordPosition = { kind: string; after: readonly string[] | null };

export type RecordCountsByKind = Readonly<Record<string, number>>;

export type ExportRow = SqlRow<typeof ExportModel>;

/** An export joined with the columns of its job, which are null or 0 if the job is missing. */
export const exportWithJobRowShape = defineRowShape({
  ...ExportModel.columns,
  jobStatus: JobModel.columns.status.nullable(),
  errorCode: textColumn().nullable(),
  errorMessage: textColumn().nullable(),
  progressDone: integerColumn(),
  progressTotal: integerColumn().nullable(),
});

export type ExportVolume = Omit<SqlRow<typeof ExportVolumeModel>, 'orgId' | 'exportId' | 'createdAt'>;

export type ExportWithJob = SqlRow<typeof exportWithJobRowShape> & { volumes: ExportVolume[] };

export type ExportVolumeSummary = Pick<ExportVolume, 'number' | 'sizeBytes' | 'sha256' | 'records'>;

export const exportVolumeFileName = (exportId: string, number: number): string =>
  `export-${exportId}-${String(number).padStart(4, '0')}.zip`;
