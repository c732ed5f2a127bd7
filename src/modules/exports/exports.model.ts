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
