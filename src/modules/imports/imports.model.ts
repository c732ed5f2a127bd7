import { tableModel } from '#src/adapters/postgres/base-model.ts';
import {
  booleanColumn,
  defineRowShape,
  integerColumn,
  jsonColumn,
  pickColumns,
  type SqlRow,
  textArrayColumn,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { JobStatus } from '#src/contracts/jobs.ts';
import { ConnectionModel } from '#src/modules/connectors/connections.model.ts';
import type { RemoteFile } from '#src/ports/connectors.ts';

export class ImportRunModel extends tableModel('import_runs', {
  id: uuidColumn(),
  orgId: uuidColumn(),
  connectionId: uuidColumn(),
  kind: textColumn<'import' | 'sync'>(),
  jobId: textColumn(),
  status: textColumn<JobStatus>(),
  errorCode: textColumn().nullable(),
  errorMessage: textColumn().nullable(),
  targetFolderId: uuidColumn().nullable(),
  folder: textColumn(),
  deletesMissing: booleanColumn(),
  acceptsDeletions: booleanColumn(),
  mode: textColumn<'full' | 'delta'>().nullable(),
  cursor: textColumn().nullable(),
  isListed: booleanColumn(),
  total: integerColumn(),
  added: integerColumn(),
  updated: integerColumn(),
  unchanged: integerColumn(),
  deleted: integerColumn(),
  failed: integerColumn(),
  createdAt: timestampColumn(),
  finishedAt: timestampColumn().nullable(),
}) {}

export class ImportPlaceModel extends tableModel('import_places', {
  id: uuidColumn(),
  orgId: uuidColumn(),
  runId: uuidColumn(),
  /** Position of the file in the field `files` of the import request; 0 for syncs. */
  item: integerColumn(),
  kind: textColumn<'wish' | 'folder' | 'changes'>(),
  remoteId: textColumn().nullable(),
  path: textColumn().nullable(),
  name: textColumn().nullable(),
  folder: textColumn().nullable(),
  /** Remote folder of an import: its subfolders are created below the target folder, under the same names. */
  base: textColumn(),
  nextPage: textColumn().nullable(),
  doneAt: timestampColumn().nullable(),
  errorCode: textColumn().nullable(),
  errorMessage: textColumn().nullable(),
}) {}

export class ImportFileModel extends tableModel(
  'import_files',
  {
    orgId: uuidColumn(),
    runId: uuidColumn(),
    n: integerColumn(),
    item: integerColumn(),
    remoteId: textColumn(),
    remote: jsonColumn<RemoteFile>(),
    localPath: textArrayColumn(),
    status: textColumn<'pending' | 'added' | 'updated' | 'unchanged' | 'failed'>(),
    errorCode: textColumn().nullable(),
    errorMessage: textColumn().nullable(),
    documentId: uuidColumn().nullable(),
  },
  ['runId', 'n'],
) {}

export class ImportDeletionModel extends tableModel(
  'import_gone',
  {
    orgId: uuidColumn(),
    runId: uuidColumn(),
    remoteId: textColumn().nullable(),
    path: textColumn().nullable(),
  },
  [],
) {}

export class ConnectionScheduleModel extends tableModel(
  'connection_schedules',
  {
    connectionId: uuidColumn(),
    orgId: uuidColumn(),
    outdatedAt: timestampColumn().nullable(),
    leasedUntil: timestampColumn().nullable(),
  },
  'connectionId',
) {}

export class ConnectorCursorModel extends tableModel(
  'connector_cursors',
  {
    connectionId: uuidColumn(),
    orgId: uuidColumn(),
    folder: textColumn(),
    cursor: textColumn().nullable(),
    reconciledAt: timestampColumn(),
    targetFolderId: uuidColumn().nullable(),
    deletesMissing: booleanColumn(),
  },
  'connectionId',
) {}

export class ConnectorDocumentModel extends tableModel(
  'connector_documents',
  {
    orgId: uuidColumn(),
    connectionId: uuidColumn(),
    remoteId: textColumn(),
    documentId: uuidColumn().nullable(),
    revision: textColumn(),
    contentSha256: textColumn(),
    /** Document name that the last import set. If the document has another name now, a user has renamed it. */
    name: textColumn(),
    path: textColumn(),
    targetFolderId: uuidColumn().nullable(),
    localPath: textArrayColumn(),
    folderId: uuidColumn(),
    seenRunId: uuidColumn().nullable(),
    /** Time at which a sync deleted the document, because its file was deleted at the provider. */
    goneAt: timestampColumn().nullable(),
  },
  ['connectionId', 'remoteId'],
) {}

export class ConnectorFolderModel extends tableModel(
  'connector_folders',
  {
    orgId: uuidColumn(),
    connectionId: uuidColumn(),
    remoteId: textColumn(),
    path: textColumn(),
  },
  ['connectionId', 'remoteId'],
) {}

export const importConnectionRowShape = pickColumns(
  ConnectionModel,
  'id',
  'orgId',
  'userId',
  'provider',
  'status',
  'config',
);
export type ImportConnection = SqlRow<typeof importConnectionRowShape>;

export type ImportRunRow = SqlRow<typeof ImportRunModel>;

export type NewImportRunRow = Pick<
  ImportRunRow,
  'id' | 'orgId' | 'connectionId' | 'kind' | 'jobId' | 'targetFolderId' | 'folder' | 'deletesMissing'
>;

/** The state of a connection's last sync: its cursor in the provider's change feed, and its settings. */
export const syncCursorRowShape = defineRowShape({
  ...pickColumns(ConnectorCursorModel, 'folder', 'targetFolderId', 'deletesMissing', 'cursor').columns,
  isFresh: booleanColumn(),
});
export type SyncCursor = SqlRow<typeof syncCursorRowShape>;

/**
 * Something that an import run lists page by page: a requested file (kind `wish`), a folder, or the provider's changes
 * after a cursor.
 */
export type ImportPlace = SqlRow<typeof ImportPlaceModel>;

export type ListedRemoteFile = { item: number; remote: RemoteFile; localPath: string[] };

export type ImportFileRow = SqlRow<typeof ImportFileModel>;

export const importFileViewRowShape = defineRowShape({
  ...ImportFileModel.columns,
  generation: integerColumn().nullable(),
});

export type ConnectorDocument = Omit<SqlRow<typeof ConnectorDocumentModel>, 'orgId' | 'connectionId'>;

export const importedFileRowShape = defineRowShape({
  ...ConnectorDocumentModel.columns,
  document: jsonColumn<{ name: string; contentSha256: string; isWhereItWasPut: boolean }>().nullable(),
});

export type ImportedFile = SqlRow<typeof importedFileRowShape>;

export type ImportResult = {
  fileId: string | null;
  documentId: string | null;
  jobId: string;
  status: 'queued' | 'unchanged' | 'failed';
  error: { code: string; message: string } | null;
};
