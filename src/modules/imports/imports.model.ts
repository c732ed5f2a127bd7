import { model } from '#src/adapters/postgres/base-model.ts';
import {
  boolean,
  integer,
  json,
  pick,
  type Row,
  shape,
  text,
  textArray,
  timestamp,
  uuid,
} from '#src/adapters/postgres/shapes.ts';
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
  /** Index in the `files` of the import request; 0 for syncs. */
  item: integer(),
  kind: text<'wish' | 'folder' | 'changes'>(),
  remoteId: text().nullable(),
  path: text().nullable(),
  name: text().nullable(),
  folder: text().nullable(),
  /** Remote path whose subfolders the import creates below the target folder. */
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

export class ImportDeletionModel extends model(
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
    documentId: uuid().nullable(),
    revision: text(),
    contentSha256: text(),
    /** Document name that the last import set. If the document has another name now, a user has renamed it. */
    name: text(),
    path: text(),
    targetFolderId: uuid().nullable(),
    localPath: textArray(),
    folderId: uuid(),
    seenRunId: uuid().nullable(),
    /** Time at which a sync deleted the document, because its file was deleted at the provider. */
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

export const importConnection = pick(ConnectionModel, 'id', 'orgId', 'userId', 'provider', 'status', 'config');
export type ImportConnection = Row<typeof importConnection>;

export type ImportRunRow = Row<typeof ImportRunModel>;

export type NewImportRun = Pick<
  ImportRunRow,
  'id' | 'orgId' | 'connectionId' | 'kind' | 'jobId' | 'targetFolderId' | 'folder' | 'deletesMissing'
>;

/** The state of a connection's last sync: its cursor in the provider's change feed, and its settings. */
export const syncCursor = shape({
  ...pick(ConnectorCursorModel, 'folder', 'targetFolderId', 'deletesMissing', 'cursor').columns,
  /** False if the last full listing is over a day old. */
  isFresh: boolean(),
});
export type SyncCursor = Row<typeof syncCursor>;

/**
 * Something that an import run lists at the provider: a requested file (kind `wish`), a folder, or the changes after a
 * cursor.
 */
export type ImportPlace = Row<typeof ImportPlaceModel>;

export type ListedRemoteFile = { item: number; remote: RemoteFile; localPath: string[] };

export type ImportFileRow = Row<typeof ImportFileModel>;

export const importFileView = shape({ ...ImportFileModel.columns, generation: integer().nullable() });

export type ConnectorDocument = Omit<Row<typeof ConnectorDocumentModel>, 'orgId' | 'connectionId'>;

export const importedFile = shape({
  ...ConnectorDocumentModel.columns,
  document: json<{ name: string; contentSha256: string; isWhereItWasPut: boolean }>().nullable(),
});

export type ImportedFile = Row<typeof importedFile>;

export type ImportResult = {
  fileId: string | null;
  documentId: string | null;
  jobId: string;
  status: 'queued' | 'unchanged' | 'failed';
  error: { code: string; message: string } | null;
};
