import type { Knex } from 'knex';
import type { ImportRun } from '#src/contracts/connectors.ts';
import { documentNameFromFile, folderNamesBelowBasePath, parentFolderPath } from '#src/domain/documents/names.ts';
import { toPostgresText } from '#src/domain/text/plain-text.ts';
import { AppError, appError } from '#src/errors.ts';
import type { ConnectorCredentials, RemoteChange, RemoteFile, RemoteFileQuery } from '#src/ports/connectors.ts';
import { createImportRunsRepository, type ImportPlaceListingProgress } from './import-runs.repository.ts';
import type { ImportedFile, ImportPlace, ImportRunRow, SyncCursor } from './imports.model.ts';
import { createConnectorDocumentsRepository } from './sync-state.repository.ts';

/**
 * Lists the files of an import run at the provider, one page at a time. One transaction stores the files of a page and
 * the cursor of the next page, so a repeated step counts no file twice and misses none.
 */
export function createRemoteFileListing(deps: { db: Knex; credentials: ConnectorCredentials }) {
  const { db, credentials } = deps;
  const connectionOf = (of: ImportRun, { jobId }: ImportRunRow) => ({ ...of, requestId: jobId });

  async function storePage(
    of: ImportRun,
    place: ImportPlace,
    to: ImportPlaceListingProgress,
    write: (trx: Knex, run: ImportRunRow) => Promise<void> = () => Promise.resolve(),
  ): Promise<void> {
    await db.transaction(async (trx) => {
      const runs = createImportRunsRepository(trx);
      const run = await runs.lockRun(of);
      if (await runs.advancePlace(place, to)) await write(trx, run);
    });
  }

  /** Stores listed files for import. A sync only counts unchanged files, which would be too many rows. */
  async function storeFiles(
    trx: Knex,
    of: ImportRun,
    run: ImportRunRow,
    { item, base }: Pick<ImportPlace, 'item' | 'base'>,
    remotes: readonly RemoteFile[],
  ): Promise<void> {
    const runs = createImportRunsRepository(trx);
    const documents = createConnectorDocumentsRepository(trx);
    const ids = remotes.map(({ fileId }) => fileId);
    const known = new Map((await documents.find(of, ids)).map((file): [string, ImportedFile] => [file.remoteId, file]));
    const found = remotes.map((remote) => {
      const file = { item, remote, localPath: folderNamesBelowBasePath(base, remote.path) };
      const before = known.get(remote.fileId);
      const isSame = before !== undefined && isUnchanged(run, before, file);
      return { file: { ...file, unchangedAs: isSame ? before.documentId : null }, isSame };
    });
    const same = new Set(found.filter(({ isSame }) => isSame).map(({ file }) => file.remote));
    if (run.kind === 'import') {
      const added = await runs.addFiles(
        of,
        found.map(({ file }) => file),
      );
      const unchanged = added.filter(({ remote }) => same.has(remote)).length;
      await runs.addCounts(of, { total: added.length, unchanged });
      return;
    }
    const changed = found.filter(({ isSame }) => !isSame).map(({ file }) => file);
    const added = await runs.addFiles(of, changed);
    await documents.markSeen(
      of,
      [...same].map(({ fileId }) => fileId),
    );
    await runs.addCounts(of, { total: added.length + same.size, unchanged: same.size });
  }

  async function storeFolders(
    trx: Knex,
    of: ImportRun,
    { item, base }: Pick<ImportPlace, 'item' | 'base'>,
    folders: RemoteFile[],
  ): Promise<void> {
    await createConnectorDocumentsRepository(trx).storeFolders(of, folders);
    await createImportRunsRepository(trx).addFolders(of, { item, base }, folders);
  }

  async function listRequested(of: ImportRun, run: ImportRunRow, place: ImportPlace): Promise<void> {
    const found = await credentials.use(connectionOf(of, run), (access, { find }) => find(access, queryOf(place)));
    const remote = storable(found);
    const at = { item: place.item, base: parentFolderPath(remote.path) };
    await storePage(of, place, { nextPage: null, remoteId: remote.fileId }, (trx, locked) =>
      remote.isFolder ? storeFolders(trx, of, at, [remote]) : storeFiles(trx, of, locked, at, [remote]),
    );
  }

  async function listFolder(of: ImportRun, run: ImportRunRow, place: ImportPlace): Promise<void> {
    const folder = { ...(place.remoteId !== null && { fileId: place.remoteId }), path: place.path ?? '' };
    const page = await credentials.use(connectionOf(of, run), (access, { list }) =>
      list(access, folder, place.nextPage),
    );
    const { folders, files } = byKind(page.files.map(storable));
    await storePage(of, place, { nextPage: page.nextPage }, async (trx, locked) => {
      await storeFolders(trx, of, place, folders);
      await storeFiles(trx, of, locked, place, files);
    });
  }

  async function listChanges(of: ImportRun, run: ImportRunRow, place: ImportPlace): Promise<void> {
    const since = place.nextPage ?? '';
    const { changes, cursor, hasMore } = await credentials.use(connectionOf(of, run), (access, connector) => {
      if (connector.changes === null) throw appError('cursor_expired');
      return connector.changes.since(access, since);
    });
    const present = changes.flatMap((change) => (change.kind === 'present' ? [storable(change.file)] : []));
    const gone = changes.flatMap(goneOf);
    const { folders, files } = byKind(present);
    const documents = createConnectorDocumentsRepository(db);
    const known = await documents.knownFolders(
      of,
      folders.map(({ fileId }) => fileId),
    );
    const isMoved = ({ fileId, path }: RemoteFile) => known.has(fileId) && known.get(fileId) !== path;
    const goneIds = gone.flatMap((each) => ('remoteId' in each ? [each.remoteId] : []));
    // Lists all files again: the change feed does not name the files in a moved folder, nor which of two folders with
    // the same path was deleted.
    if (folders.some(isMoved) || (await documents.sharesPath(of, goneIds))) return listAll(of, run);
    await storePage(of, place, { nextPage: hasMore ? cursor : null }, async (trx, locked) => {
      const runs = createImportRunsRepository(trx);
      await storeFolders(
        trx,
        of,
        place,
        folders.filter(({ fileId }) => !known.has(fileId)),
      );
      await storeFiles(trx, of, locked, place, files);
      // Unmarks files that an earlier page of the change feed named as deleted; they may have been restored.
      await runs.removeGone(
        of,
        present.map(({ fileId }) => fileId),
      );
      await runs.addGone(of, gone);
      await runs.updateRun(of, { cursor });
    });
  }

  /** Lists the whole remote folder. Gets the change cursor first, so that the next sync sees later changes. */
  async function listAll(of: ImportRun, run: ImportRunRow): Promise<void> {
    const cursor = await credentials.use(connectionOf(of, run), async (access, { changes }) =>
      changes === null ? null : changes.begin(access, { path: run.folder }),
    );
    await restart(of, { mode: 'full', cursor });
  }

  async function restart(of: ImportRun, to: Pick<ImportRunRow, 'mode' | 'cursor'>): Promise<void> {
    await db.transaction(async (trx) => {
      const runs = createImportRunsRepository(trx);
      const run = await runs.lockRun(of);
      const isDelta = to.mode === 'delta';
      const first = { kind: isDelta ? 'changes' : 'folder', nextPage: isDelta ? to.cursor : null } as const;
      await runs.restartListing(of, { ...first, path: run.folder });
      await runs.updateRun(of, to);
    });
  }

  return {
    listAll,

    /**
     * Starts a sync: lists the changes since the last sync, or all files if the last full listing is over a day old.
     */
    async begin(of: ImportRun, run: ImportRunRow): Promise<void> {
      if (run.kind === 'import' || run.mode !== null) return;
      const last = await createConnectorDocumentsRepository(db).findCursor(of.connectionId);
      if (last?.cursor == null || !last.isFresh || !coversSettings(last, run)) return listAll(of, run);
      await restart(of, { mode: 'delta', cursor: last.cursor });
    },

    async end(of: ImportRun): Promise<void> {
      await db.transaction(async (trx) => {
        const runs = createImportRunsRepository(trx);
        const run = await runs.lockRun(of);
        if (run.mode === 'delta') await runs.addCounts(of, { total: await runs.addFailedBefore(of) });
        await runs.updateRun(of, { isListed: true });
      });
    },

    /**
     * Lists the next page of an import run. If a folder fails that may be skipped, stores its error and goes on.
     * Returns false once everything is listed.
     */
    async next(of: ImportRun, run: ImportRunRow): Promise<boolean> {
      const place = await createImportRunsRepository(db).nextPlace(of);
      if (place === undefined) return false;
      try {
        if (place.kind === 'wish') await listRequested(of, run, place);
        else if (place.kind === 'folder') await listFolder(of, run, place);
        else await listChanges(of, run, place);
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        if (place.kind === 'changes' && error.code === 'cursor_expired') await listAll(of, run);
        else if (canSkip(run, place, error)) await storePage(of, place, { nextPage: null, error });
        else throw error;
      }
      return true;
    },
  };
}

/** Returns false if the sync's folders changed or it now deletes documents: it must process unchanged files too. */
function coversSettings(last: SyncCursor, run: ImportRunRow): boolean {
  const isSameFolder = last.folder === run.folder && last.targetFolderId === run.targetFolderId;
  return isSameFolder && (last.deletesMissing || !run.deletesMissing);
}

/**
 * Tells whether a listing may go on without this folder or file. A sync deletes the documents of files that it does not
 * find, so it may skip only subfolders that were deleted during the listing.
 */
function canSkip({ kind }: ImportRunRow, place: ImportPlace, { code, errorClass }: AppError): boolean {
  if (errorClass !== 'permanent' || code === 'connection_not_found') return false;
  return kind === 'import' || (code === 'remote_file_not_found' && place.remoteId !== null);
}

function isUnchanged(
  run: ImportRunRow,
  before: ImportedFile,
  { remote, localPath }: { remote: RemoteFile; localPath: string[] },
): boolean {
  if (run.kind === 'import') return before.document !== null && before.revision === remote.revision;
  if (before.goneAt !== null) return false;
  // Skips a file whose document a user has deleted: a sync does not import it again.
  if (before.document === null) return true;
  return (
    before.revision === remote.revision &&
    before.path === remote.path &&
    before.name === documentNameFromFile(remote.name) &&
    before.targetFolderId === run.targetFolderId &&
    before.localPath.join('/') === localPath.join('/')
  );
}

/** Removes characters from a provider's texts that Postgres cannot store. */
function storable(file: RemoteFile): RemoteFile {
  const { fileId, name, path, mimeType, revision } = file;
  return {
    ...file,
    ...{ fileId: toPostgresText(fileId), name: toPostgresText(name), path: toPostgresText(path) },
    ...{ mimeType: toPostgresText(mimeType), revision: toPostgresText(revision) },
  };
}

function byKind(remotes: RemoteFile[]): { folders: RemoteFile[]; files: RemoteFile[] } {
  return { folders: remotes.filter(({ isFolder }) => isFolder), files: remotes.filter(({ isFolder }) => !isFolder) };
}

function queryOf({ remoteId, path, name, folder }: ImportPlace): RemoteFileQuery {
  return {
    ...(remoteId !== null && { fileId: remoteId }),
    ...(path !== null && { path }),
    ...(name !== null && { name }),
    ...(folder !== null && { folder }),
  };
}

function goneOf(change: RemoteChange): ({ remoteId: string } | { path: string })[] {
  if (change.kind === 'gone') return [{ remoteId: change.fileId }];
  return change.kind === 'gone-path' ? [{ path: change.path }] : [];
}
