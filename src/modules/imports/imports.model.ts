import { model } from '#src/adapters/postgres/base-model.ts';
import { boolean, integer, json, type Row, text, textArray, timestamp, uuid } from '#src/adapters/postgres/columns.ts';
import { pick, shape } from '#src/adapters/postgres/shapes.ts';
import type { JobStatus } from '#src/contracts/jobs.ts';
import { ConnectionModel } from '#src/modules/connectors/connections.model.ts';
import type { RemoteFile } from '#src/ports/connectors.ts';

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
  /** Of a sync that has begun. */
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
  /** Of the request, from 0. */
  item: integer(),
  kind: text<'wish' | 'folder' | 'changes'>(),
  remoteId: text().nullable(),
  path: text().nullable(),
  name: text().nullable(),
  folder: text().nullable(),
  /** The path whose folders and files go straight into the target. */
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

/** What imports know of a connection. */
export const importConnection = pick(ConnectionModel, 'id', 'orgId', 'userId', 'provider', 'status', 'config');
export type ImportConnection = Row<typeof importConnection>;

/** What was asked for, and what came of it. */
export type ImportRunRow = Row<typeof ImportRunModel>;

export type NewImportRun = Pick<
  ImportRunRow,
  'id' | 'orgId' | 'connectionId' | 'kind' | 'jobId' | 'targetFolderId' | 'folder' | 'deletesMissing'
>;

/** Where the next sync of a connection goes on, and what the last one was to do. */
export const syncCursor = shape({
  ...pick(ConnectorCursorModel, 'folder', 'targetFolderId', 'deletesMissing', 'cursor').columns,
  /** All was compared less than a day ago. */
  isFresh: boolean(),
});
export type SyncCursor = Row<typeof syncCursor>;

/** Something that was asked for, a folder found below it, or what has changed since the last sync. */
export type ImportPlace = Row<typeof ImportPlaceModel>;

/** A file that was found, and the folders below the target that it goes into. */
export type FoundFile = { item: number; remote: RemoteFile; localPath: string[] };

export type ImportFileRow = Row<typeof ImportFileModel>;

/** With the generation of the document that it has become. */
export const listedFile = shape({ ...ImportFileModel.columns, generation: integer().nullable() });

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
