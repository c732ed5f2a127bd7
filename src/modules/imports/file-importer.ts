import type { Knex } from 'knex';
import type { ImportFileResult, ImportRun } from '#src/contracts/connectors.ts';
import type { StoredUpload } from '#src/contracts/request-data.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { documentNameFromFile } from '#src/domain/documents/names.ts';
import { toPostgresText } from '#src/domain/text/plain-text.ts';
import { type AppError, appError } from '#src/errors.ts';
import type { DocumentsService } from '#src/modules/documents/documents.service.ts';
import type { UploadsService } from '#src/modules/documents/uploads.service.ts';
import type { FolderTreeChangesService } from '#src/modules/folders/folders.service.ts';
import type { TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import type { ConnectorCredentials } from '#src/ports/connectors.ts';
import { createImportRunsRepository } from './import-runs.repository.ts';
import type {
  ConnectorDocument,
  ImportConnection,
  ImportedFile,
  ImportFileRow,
  ImportRunRow,
} from './imports.model.ts';
import { createConnectorDocumentsRepository } from './sync-state.repository.ts';

type FileImport = {
  of: ImportRun;
  run: ImportRunRow;
  file: ImportFileRow;
  connection: ImportConnection;
  owner: RequestActor;
  known: ImportedFile | undefined;
};
type FileUpdate = FileImport & {
  known: ImportedFile & { documentId: string; document: NonNullable<ImportedFile['document']> };
};
type Downloaded = { stored: StoredUpload; revision: string };
type Status = 'added' | 'updated' | 'unchanged';

export type FileImporterDeps = {
  db: Knex;
  credentials: ConnectorCredentials;
  documents: Pick<DocumentsService, 'requireRoom' | 'add' | 'change'>;
  uploads: UploadsService;
  folderChanges: Pick<FolderTreeChangesService, 'ensurePath'>;
  limits: Pick<TierLimitsService, 'of'>;
};

/** Creates and updates documents of remote files. Keeps names, folders and contents that users have changed here. */
export function createFileImporter(deps: FileImporterDeps) {
  const { db, credentials, documents, uploads, folderChanges, limits } = deps;

  async function add(work: FileImport, signal: AbortSignal): Promise<Status> {
    const { run, file, connection, owner } = work;
    await documents.requireRoom(owner, run.targetFolderId ?? undefined);
    const { stored, revision } = await download(work, signal);
    try {
      const folder = await folderChanges.ensurePath(owner, run.targetFolderId, file.localPath);
      await documents.add(owner, {
        file: stored,
        name: documentNameFromFile(file.remote.name),
        declaredFormat: null,
        targetFolderId: folder.id,
        importSource: { provider: connection.provider, url: sourceUrl(connection, file) },
        chunking: {},
        ingest: true,
        isBulk: true,
        alongside: (trx, documentId) =>
          storeOutcome(trx, work, 'added', {
            documentId,
            revision,
            contentSha256: stored.sha256,
            targetFolderId: run.targetFolderId,
            localPath: file.localPath,
            folderId: folder.id,
          }),
      });
      return 'added';
    } catch (error) {
      await uploads.discard(stored);
      throw error;
    }
  }

  async function update(work: FileUpdate, signal: AbortSignal): Promise<Status> {
    const { file, known } = work;
    if (known.revision === file.remote.revision) return change(work, null);
    const downloaded = await download(work, signal);
    if (downloaded.stored.sha256 === known.contentSha256) {
      await uploads.discard(downloaded.stored);
      return change({ ...work, file: { ...file, remote: { ...file.remote, revision: downloaded.revision } } }, null);
    }
    try {
      return await change(work, downloaded);
    } catch (error) {
      await uploads.discard(downloaded.stored);
      throw error;
    }
  }

  async function change(work: FileUpdate, downloaded: Downloaded | null): Promise<Status> {
    const { of, file, owner, known } = work;
    const { targetFolderId, localPath, folderId } = await folderOf(work);
    const name = documentNameFromFile(file.remote.name);
    const changes = {
      name: name !== known.name && known.document.name === known.name ? name : undefined,
      targetFolderId: folderId !== known.folderId && known.document.isWhereItWasPut ? folderId : undefined,
      file: downloaded?.stored,
    };
    const isChanged = Object.values(changes).some((value) => value !== undefined);
    const status = isChanged ? 'updated' : 'unchanged';
    const write = (trx: Knex) =>
      storeOutcome(trx, work, status, {
        documentId: known.documentId,
        revision: downloaded?.revision ?? file.remote.revision,
        contentSha256: downloaded?.stored.sha256 ?? known.contentSha256,
        ...{ targetFolderId, localPath, folderId },
      });
    if (!isChanged) {
      await db.transaction(write);
      return status;
    }
    const alongside = async (trx: Knex) => {
      const [current] = await createConnectorDocumentsRepository(trx).find(of, [file.remoteId]);
      if (current === undefined || !isSameDocument(current, known)) throw changedMeanwhile();
      await write(trx);
    };
    const options = { ...changes, chunking: {}, ingest: downloaded !== null, isBulk: true, alongside };
    await documents.change(owner, known.documentId, options);
    return status;
  }

  /** Chooses the folder of an updated document. A sync follows the remote file; a repeated import keeps the folder. */
  async function folderOf({ run, file, owner, known }: FileUpdate) {
    if (run.kind === 'import') return known;
    const { id } = await folderChanges.ensurePath(owner, run.targetFolderId, file.localPath);
    return { targetFolderId: run.targetFolderId, localPath: file.localPath, folderId: id };
  }

  /** Leaves a document unchanged that a user has changed or deleted, and stores the revision of its remote file. */
  async function keep(work: FileImport & { known: ImportedFile }): Promise<Status> {
    const { file, known } = work;
    const { documentId, contentSha256, targetFolderId, localPath, folderId } = known;
    const kept = { documentId, contentSha256, targetFolderId, localPath, folderId, revision: file.remote.revision };
    await db.transaction((trx) => storeOutcome(trx, work, 'unchanged', kept));
    return 'unchanged';
  }

  async function download({ of, run, file, owner, known }: FileImport, signal: AbortSignal): Promise<Downloaded> {
    const { fileSizeBytes: limitBytes } = await limits.of(of.orgId);
    if ((file.remote.sizeBytes ?? 0) > limitBytes) throw appError('payload_too_large');
    const source = await credentials.use({ ...of, requestId: run.jobId }, (access, connector) =>
      connector.download(access, file.remote, { limitBytes, signal }),
    );
    const { content } = source;
    const [fileName, mediaType] = [toPostgresText(source.fileName), toPostgresText(source.mediaType)];
    const replaces = known?.document == null ? undefined : (known.documentId ?? undefined);
    const upload = { fileName, mediaType, content, replaces };
    const stored = await uploads.store(owner, upload).finally(() => content.destroy());
    return { stored, revision: toPostgresText(source.revision) };
  }

  /** Stores the remote file's state and its import's result; call it in the transaction that changes the document. */
  async function storeOutcome(
    trx: Knex,
    work: FileImport,
    status: Status,
    now: Pick<
      ConnectorDocument,
      'documentId' | 'revision' | 'contentSha256' | 'targetFolderId' | 'localPath' | 'folderId'
    >,
  ): Promise<void> {
    const { of, run, file, known } = work;
    const { remoteId, remote } = file;
    await createImportRunsRepository(trx).lockRun(of);
    const document = {
      ...{ remoteId, name: documentNameFromFile(remote.name), path: remote.path },
      ...now,
      seenRunId: run.kind === 'sync' ? run.id : null,
    };
    const isStored = await createConnectorDocumentsRepository(trx).store(of, document, known?.documentId ?? null);
    if (!isStored) throw changedMeanwhile();
    await recordOutcome(trx, work, { status, documentId: now.documentId });
  }

  async function recordOutcome(
    trx: Knex,
    { of, file }: Pick<FileImport, 'of' | 'file'>,
    outcome: { status: Status | 'failed'; documentId: string | null; error?: { code: string; message: string } },
  ): Promise<void> {
    const runs = createImportRunsRepository(trx);
    if (await runs.recordOutcome(of, file.n, outcome)) await runs.addCounts(of, { [outcome.status]: 1 });
  }

  return {
    async importFile(input: Omit<FileImport, 'known'>, signal: AbortSignal): Promise<Status> {
      const { of, run, file } = input;
      const [known] = await createConnectorDocumentsRepository(db).find(of, [file.remoteId]);
      const work = { ...input, known };
      if (known === undefined) return add(work, signal);
      const { document, documentId } = known;
      if (document === null || documentId === null) {
        const wasDeletedHere = known.goneAt === null && run.kind === 'sync';
        return wasDeletedHere ? keep({ ...work, known }) : add(work, signal);
      }
      if (document.contentSha256 !== known.contentSha256) return keep({ ...work, known });
      return update({ ...work, known: { ...known, document, documentId } }, signal);
    },

    async isProviderAvailable(of: ImportRun, { jobId }: ImportRunRow): Promise<boolean> {
      const checked = credentials.use({ ...of, requestId: jobId }, (access, { check }) => check(access));
      return checked.then(
        () => true,
        () => false,
      );
    },

    async fail(
      work: Pick<FileImport, 'of' | 'file'>,
      { code, message }: { code: string; message: string },
    ): Promise<ImportFileResult> {
      const failed = { status: 'failed', documentId: null, error: { code, message } } as const;
      await db.transaction(async (trx) => {
        await createImportRunsRepository(trx).lockRun(work.of);
        await recordOutcome(trx, work, failed);
      });
      return { status: 'failed', code };
    },
  };
}

function isSameDocument({ document }: ImportedFile, { document: known }: ImportedFile): boolean {
  if (document === null || known === null) return false;
  const isSame = document.contentSha256 === known.contentSha256 && document.name === known.name;
  return isSame && document.isWhereItWasPut === known.isWhereItWasPut;
}

function changedMeanwhile(): AppError {
  return appError('service_unavailable', {
    detail: 'Another request changed the document during its import. Try again.',
    retryAfterSeconds: 1,
  });
}

/** Builds the source URL that readers of the document see, such as `acme_drive:/reports/plan.txt`. */
function sourceUrl({ provider }: ImportConnection, { remote }: ImportFileRow): string {
  return `${provider}:/${remote.path.split('/').map(encodeURIComponent).join('/')}`;
}
