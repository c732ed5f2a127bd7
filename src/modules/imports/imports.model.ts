import { model } from '#src/adapters/postgres/base-model.ts';
import { boolean, integer, json, type Row, text, textArray, timestamp, uuid } from '#src/adapters/postgres/columns.ts';
import { shape } from '#src/adapters/postgres/shapes.ts';
import type { ImportCounts } from '#src/contracts/connectors.ts';
import type { JobStatus } from '#src/contracts/jobs.ts';
import type { ConnectorProvider } from '#src/domain/connector-providers.ts';
import type { RemoteFile } from '#src/ports/connector.ts';

export class ImportRunModel extends model('import_runs', {
  id: uuid(),
  orgId: uuid(),
  connectionId: uuid(),
  kind: text<'import' | 'sync'>(),
  jobId: text(),
  status: text<JobStatus>(),
  errorCode: text().nullable(),
  errorMessage: text().nullable(),
  targetFolderId: uuid().nullable(),
  folder: text(),
  deletesMissing: boolean(),
  acceptsDeletions: boolean(),
  mode: text<'full' | 'delta'>().nullable(),
  cursor: text().nullable(),
  isListed: boolean(),
  total: integer(),
  added: integer(),
  updated: integer(),
  unchanged: integer(),
  deleted: integer(),
  failed: integer(),
  createdAt: timestamp(),
  finishedAt: timestamp().nullable(),
}) {}

export class ImportPlaceModel extends model('import_places', {
  id: uuid(),
  orgId: uuid(),
  runId: uuid(),
  item: integer(),
  kind: text<'wish' | 'folder' | 'changes'>(),
  remoteId: text().nullable(),
  path: text().nullable(),
  name: text().nullable(),
  folder: text().nullable(),
  base: text(),
  nextPage: text().nullable(),
  doneAt: timestamp().nullable(),
  errorCode: text().nullable(),
  errorMessage: text().nullable(),
}) {}

export class ImportFileModel extends model(
  'import_files',
  {
    orgId: uuid(),
    runId: uuid(),
    n: integer(),
    item: integer(),
    remoteId: text(),
    remote: json<RemoteFile>(),
    localPath: textArray(),
    status: text<'pending' | 'added' | 'updated' | 'unchanged' | 'failed'>(),
    errorCode: text().nullable(),
    errorMessage: text().nullable(),
    documentId: uuid().nullable(),
  },
  ['runId', 'n'],
) {}

export class ImportGoneModel extends model(
  'import_gone',
  {
    orgId: uuid(),
    runId: uuid(),
    remoteId: text().nullable(),
    path: text().nullable(),
  },
  [],
) {}

export class ConnectionScheduleModel extends model(
  'connection_schedules',
  {
    connectionId: uuid(),
    orgId: uuid(),
    outdatedAt: timestamp().nullable(),
    leasedUntil: timestamp().nullable(),
  },
  'connectionId',
) {}

export class ConnectorCursorModel extends model(
  'connector_cursors',
  {
    connectionId: uuid(),
    orgId: uuid(),
    folder: text(),
    cursor: text().nullable(),
    reconciledAt: timestamp(),
    targetFolderId: uuid().nullable(),
    deletesMissing: boolean(),
  },
  'connectionId',
) {}

export class ConnectorDocumentModel extends model(
  'connector_documents',
  {
    orgId: uuid(),
    connectionId: uuid(),
    remoteId: text(),
    /** Null when the document is gone. */
    documentId: uuid().nullable(),
    revision: text(),
    contentSha256: text(),
    /** Name and place of the document at its import: what differs since, a user has changed. */
    name: text(),
    path: text(),
    targetFolderId: uuid().nullable(),
    localPath: textArray(),
    folderId: uuid(),
    seenRunId: uuid().nullable(),
    /** Deleted at the provider, and here by a sync. */
    goneAt: timestamp().nullable(),
  },
  ['connectionId', 'remoteId'],
) {}

export class ConnectorFolderModel extends model(
  'connector_folders',
  {
    orgId: uuid(),
    connectionId: uuid(),
    remoteId: text(),
    path: text(),
  },
  ['connectionId', 'remoteId'],
) {}

/** How a connection is kept in line with its provider, as it stands in `config.sync`. */
export type SyncConfig = {
  enabled: boolean;
  interval_minutes?: number | undefined;
  cron?: string | undefined;
  /** A path from the connection's root; the root itself when left out. */
  folder?: string | undefined;
  /** The owner's personal root when left out. */
  target_folder_id?: string | null | undefined;
  delete_missing?: boolean | undefined;
};

/** What imports know of a connection. */
export type ImportConnection = {
  id: string;
  orgId: string;
  userId: string;
  provider: ConnectorProvider;
  status: string;
  config: { sync?: SyncConfig | null };
};

/** A row of `import_runs`: what was asked for, and what came of it. */
export type ImportRunRow = ImportCounts & {
  id: string;
  orgId: string;
  connectionId: string;
  kind: 'import' | 'sync';
  jobId: string;
  status: JobStatus;
  errorCode: string | null;
  errorMessage: string | null;
  targetFolderId: string | null;
  folder: string;
  deletesMissing: boolean;
  acceptsDeletions: boolean;
  /** Of a sync that has begun. */
  mode: 'full' | 'delta' | null;
  cursor: string | null;
  isListed: boolean;
  createdAt: Date;
  finishedAt: Date | null;
};

export type NewImportRun = Pick<
  ImportRunRow,
  'id' | 'orgId' | 'connectionId' | 'kind' | 'jobId' | 'targetFolderId' | 'folder' | 'deletesMissing'
>;

/** Where the next sync of a connection goes on, and what the last one was to do. */
export type SyncCursor = Pick<ImportRunRow, 'folder' | 'targetFolderId' | 'deletesMissing' | 'cursor'> & {
  /** All was compared less than a day ago. */
  isFresh: boolean;
};

/** Something that was asked for, a folder found below it, or what has changed since the last sync. */
export type ImportPlace = {
  id: string;
  /** Of the request, from 0. */
  item: number;
  kind: 'wish' | 'folder' | 'changes';
  remoteId: string | null;
  path: string | null;
  name: string | null;
  folder: string | null;
  /** The path whose folders and files go straight into the target. */
  base: string;
  nextPage: string | null;
  doneAt: Date | null;
  errorCode: string | null;
  errorMessage: string | null;
};

/** A file that was found, and the folders below the target that it goes into. */
export type FoundFile = { item: number; remote: RemoteFile; localPath: string[] };

export type ImportFileRow = {
  n: number;
  item: number;
  remoteId: string;
  remote: RemoteFile;
  localPath: string[];
  status: 'pending' | 'added' | 'updated' | 'unchanged' | 'failed';
  errorCode: string | null;
  errorMessage: string | null;
  documentId: string | null;
};

/** What a file at the provider has become. */
export type ConnectorDocument = Omit<Row<typeof ConnectorDocumentModel>, 'orgId' | 'connectionId'>;

/** With the document as it is now; null for one that is deleted. */
export const knownFile = shape({
  ...ConnectorDocumentModel.columns,
  document: json<{ name: string; contentSha256: string; isWhereItWasPut: boolean }>().nullable(),
});

export type KnownFile = Row<typeof knownFile>;

/** What came of one item of a request, or of a file in a folder that it names. */
export type ImportResult = {
  fileId: string | null;
  documentId: string | null;
  jobId: string;
  status: 'queued' | 'unchanged' | 'failed';
  error: { code: string; message: string } | null;
};
