import type { Knex } from 'knex';
import type { ImportFileResult, ImportRun } from '#src/contracts/connectors.ts';
import type { StoredUpload } from '#src/contracts/uploads.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { nameFromFile } from '#src/domain/documents/names.ts';
import { toStorable } from '#src/domain/text/plain-text.ts';
import { type AppError, appError } from '#src/errors.ts';
import type { DocumentsService } from '#src/modules/documents/documents.service.ts';
import type { UploadsService } from '#src/modules/documents/uploads.service.ts';
import type { TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import type { ConnectorCredentials } from '#src/ports/connectors.ts';
import { createConnectorDocumentsRepository } from './connector-documents.repository.ts';
import type { FolderPaths } from './folder-paths.ts';
import { createImportFilesRepository } from './import-files.repository.ts';
import { createImportRunsRepository } from './import-runs.repository.ts';
import type { ConnectorDocument, ImportConnection, ImportFileRow, ImportRunRow, KnownFile } from './imports.model.ts';

/** All that one file needs. */
type Work = {
  of: ImportRun;
  run: ImportRunRow;
  file: ImportFileRow;
  connection: ImportConnection;
  owner: RequestActor;
  known: KnownFile | undefined;
};
/** A file whose document is there. */
type KnownWork = Work & { known: KnownFile & { documentId: string; document: NonNullable<KnownFile['document']> } };
type Fetched = { stored: StoredUpload; revision: string };
type Status = 'added' | 'updated' | 'unchanged';

export type FileImporter = ReturnType<typeof createFileImporter>;

/** Makes documents of files, and brings them in line; what somebody has changed here stays as he wants it. */
export function createFileImporter(deps: {
  db: Knex;
  credentials: ConnectorCredentials;
  documents: Pick<DocumentsService, 'requireRoom' | 'add' | 'change'>;
  uploads: UploadsService;
  folderPaths: FolderPaths;
  limits: Pick<TierLimitsService, 'of'>;
}) {
  const { db, credentials, documents, uploads, folderPaths, limits } = deps;

  /** In the transaction that changes the document: what the file is now, and what became of it in this run. */
  async function settle(
    trx: Knex,
    work: Work,
    status: Status,
    now: Pick<
      ConnectorDocument,
      'documentId' | 'revision' | 'contentSha256' | 'targetFolderId' | 'localPath' | 'folderId'
    >,
  ): Promise<void> {
    const { of, run, file, known } = work;
    const { remoteId, remote } = file;
    await requireHeld(trx, of);
    const document = {
      ...{ remoteId, name: nameFromFile(remote.name), path: remote.path },
      ...now,
      seenRunId: run.kind === 'sync' ? run.id : null,
    };
    const isStored = await createConnectorDocumentsRepository(trx).store(of, document, known?.documentId ?? null);
    if (!isStored) throw again();
    await end(trx, work, { status, documentId: now.documentId });
  }

  /** Before all that hangs on the run, as whoever deletes its connection takes them. */
  async function requireHeld(trx: Knex, of: ImportRun): Promise<void> {
    if ((await createImportRunsRepository(trx).lock(of)) === undefined) throw appError('connection_not_found');
  }

  async function end(
    trx: Knex,
    { of, file }: Pick<Work, 'of' | 'file'>,
    ended: { status: Status | 'failed'; documentId: string | null; error?: { code: string; message: string } },
  ): Promise<void> {
    if (!(await createImportFilesRepository(trx).end(of, file.n, ended))) return;
    await createImportRunsRepository(trx).add(of, { [ended.status]: 1 });
  }

  async function fetch({ of, run, file, owner, known }: Work, signal: AbortSignal): Promise<Fetched> {
    const { fileSizeBytes: limitBytes } = await limits.of(of.orgId);
    if ((file.remote.sizeBytes ?? 0) > limitBytes) throw appError('payload_too_large');
    const use = { ...of, requestId: run.jobId };
    const source = await credentials.use(use, (access, connector) =>
      connector.download(access, file.remote, { limitBytes, signal }),
    );
    const { content } = source;
    const [fileName, mediaType] = [toStorable(source.fileName), toStorable(source.mediaType)];
    const replaces = known?.document == null ? undefined : (known.documentId ?? undefined);
    const upload = { fileName, mediaType, content, replaces };
    const stored = await uploads.store(owner, upload).finally(() => content.destroy());
    return { stored, revision: toStorable(source.revision) };
  }

  async function add(work: Work, signal: AbortSignal): Promise<Status> {
    const { run, file, connection, owner } = work;
    await documents.requireRoom(owner, run.targetFolderId ?? undefined);
    const { stored, revision } = await fetch(work, signal);
    try {
      const folder = await folderPaths.ensure(owner, run.targetFolderId, file.localPath);
      await documents.add(owner, {
        file: stored,
        name: nameFromFile(file.remote.name),
        declaredFormat: null,
        targetFolderId: folder.id,
        importSource: { provider: connection.provider, url: sourceUrl(connection, file) },
        chunking: {},
        ingest: true,
        isBulk: true,
        alongside: (trx, documentId) =>
          settle(trx, work, 'added', {
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

  /** Where the document goes: a sync puts it where its file is, an import leaves it where it was put. */
  async function placeOf({ run, file, owner, known }: KnownWork) {
    if (run.kind === 'import') return known;
    const { id } = await folderPaths.ensure(owner, run.targetFolderId, file.localPath);
    return { targetFolderId: run.targetFolderId, localPath: file.localPath, folderId: id };
  }

  async function change(work: KnownWork, fetched: Fetched | null): Promise<Status> {
    const { of, file, owner, known } = work;
    const { targetFolderId, localPath, folderId } = await placeOf(work);
    const name = nameFromFile(file.remote.name);
    const changes = {
      name: name !== known.name && known.document.name === known.name ? name : undefined,
      targetFolderId: folderId !== known.folderId && known.document.isWhereItWasPut ? folderId : undefined,
      file: fetched?.stored,
    };
    const isChanged = Object.values(changes).some((value) => value !== undefined);
    const status = isChanged ? 'updated' : 'unchanged';
    const write = (trx: Knex) =>
      settle(trx, work, status, {
        documentId: known.documentId,
        revision: fetched?.revision ?? file.remote.revision,
        contentSha256: fetched?.stored.sha256 ?? known.contentSha256,
        ...{ targetFolderId, localPath, folderId },
      });
    if (!isChanged) {
      await db.transaction(write);
      return status;
    }
    const alongside = async (trx: Knex) => {
      const [now] = await createConnectorDocumentsRepository(trx).find(of, [file.remoteId]);
      if (now === undefined || !isAsKnown(now, known)) throw again();
      await write(trx);
    };
    const change = { ...changes, chunking: {}, ingest: fetched !== null, isBulk: true, alongside };
    await documents.change(owner, known.documentId, change);
    return status;
  }

  async function update(work: KnownWork, signal: AbortSignal): Promise<Status> {
    const { file, known } = work;
    if (known.revision === file.remote.revision) return change(work, null);
    const fetched = await fetch(work, signal);
    if (fetched.stored.sha256 === known.contentSha256) {
      await uploads.discard(fetched.stored);
      return change({ ...work, file: { ...file, remote: { ...file.remote, revision: fetched.revision } } }, null);
    }
    try {
      return await change(work, fetched);
    } catch (error) {
      await uploads.discard(fetched.stored);
      throw error;
    }
  }

  /** Notes what there is at the provider; the document is somebody's own. */
  async function keep(work: Work & { known: KnownFile }): Promise<Status> {
    const { file, known } = work;
    const { documentId, contentSha256, targetFolderId, localPath, folderId } = known;
    const now = { documentId, contentSha256, targetFolderId, localPath, folderId, revision: file.remote.revision };
    await db.transaction((trx) => settle(trx, work, 'unchanged', now));
    return 'unchanged';
  }

  return {
    async importFile(input: Omit<Work, 'known'>, signal: AbortSignal): Promise<Status> {
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

    async providerAnswers(of: ImportRun, { jobId }: ImportRunRow): Promise<boolean> {
      const asked = credentials.use({ ...of, requestId: jobId }, (access, { check }) => check(access));
      return asked.then(
        () => true,
        () => false,
      );
    },

    /** Of a file that cannot be had; the others go on. */
    async fail(
      work: Pick<Work, 'of' | 'file'>,
      { code, message }: { code: string; message: string },
    ): Promise<ImportFileResult> {
      const failed = { status: 'failed', documentId: null, error: { code, message } } as const;
      await db.transaction(async (trx) => {
        await requireHeld(trx, work.of);
        await end(trx, work, failed);
      });
      return { status: 'failed', code };
    },
  };
}

/** Whether nobody has changed the document since: its content, its name or its place. */
function isAsKnown({ document }: KnownFile, { document: known }: KnownFile): boolean {
  if (document === null || known === null) return false;
  const isSame = document.contentSha256 === known.contentSha256 && document.name === known.name;
  return isSame && document.isWhereItWasPut === known.isWhereItWasPut;
}

function again(): AppError {
  return appError('service_unavailable', { detail: 'The document was changed meanwhile.', retryAfterSeconds: 1 });
}

/** `acme_drive:/reports/plan.txt`: where it comes from, for who reads it. */
function sourceUrl({ provider }: ImportConnection, { remote }: ImportFileRow): string {
  return `${provider}:/${remote.path.split('/').map(encodeURIComponent).join('/')}`;
}
