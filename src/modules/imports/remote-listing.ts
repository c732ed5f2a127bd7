import type { Knex } from 'knex';
import type { ImportRun } from '#src/contracts/connectors.ts';
import { foldersBelow, nameFromFile, parentPath } from '#src/domain/documents/names.ts';
import { toStorable } from '#src/domain/text/plain-text.ts';
import { AppError, appError } from '#src/errors.ts';
import type { ConnectorCredentials, RemoteChange, RemoteFile, RemoteFileQuery } from '#src/ports/connectors.ts';
import { createConnectorDocumentsRepository } from './connector-documents.repository.ts';
import { createImportFilesRepository } from './import-files.repository.ts';
import { createImportRunsRepository } from './import-runs.repository.ts';
import type { ImportPlace, ImportRunRow, KnownFile, SyncCursor } from './imports.model.ts';

export type RemoteListing = ReturnType<typeof createRemoteListing>;

/**
 * Finds out what a run has to import, a page at a time. What a page holds is written down together with where the next
 * one begins, so that none is counted twice, and none is missed.
 */
export function createRemoteListing(deps: { db: Knex; credentials: ConnectorCredentials }) {
  const { db, credentials } = deps;
  const files = createImportFilesRepository(db);

  const useOf = (of: ImportRun, { jobId }: ImportRunRow) => ({ ...of, requestId: jobId });

  /** Writes down what came of a place, unless somebody else has. */
  async function note(
    of: ImportRun,
    place: ImportPlace,
    to: Parameters<typeof files.advancePlace>[1],
    write: (trx: Knex, run: ImportRunRow) => Promise<void> = () => Promise.resolve(),
  ): Promise<void> {
    await db.transaction(async (trx) => {
      const run = await createImportRunsRepository(trx).lock(of);
      if (run === undefined) throw appError('connection_not_found');
      if (await createImportFilesRepository(trx).advancePlace(place, to)) await write(trx, run);
    });
  }

  /** What is as it was when it was imported is counted; the rest waits. */
  async function take(
    trx: Knex,
    of: ImportRun,
    run: ImportRunRow,
    { item, base }: ImportPlace,
    remotes: readonly RemoteFile[],
  ): Promise<void> {
    const documents = createConnectorDocumentsRepository(trx);
    const ids = remotes.map(({ fileId }) => fileId);
    const known = new Map((await documents.find(of, ids)).map((file): [string, KnownFile] => [file.remoteId, file]));
    const found = remotes.map((remote) => {
      const file = { item, remote, localPath: foldersBelow(base, remote.path) };
      const before = known.get(remote.fileId);
      return { ...file, isUnchanged: before !== undefined && isUnchanged(run, before, file) };
    });
    const same = found.filter(({ isUnchanged: is }) => is);
    const other = found.filter(({ isUnchanged: is }) => !is);
    const isImport = run.kind === 'import';
    // A sync that finds ten thousand files as they were writes down those only that are not.
    const rows = (isImport ? found : other).map(({ isUnchanged: is, ...file }) => ({
      ...file,
      unchangedAs: is ? (known.get(file.remote.fileId)?.documentId ?? null) : null,
    }));
    const added = await createImportFilesRepository(trx).addFiles(of, rows);
    if (!isImport)
      await documents.markSeen(
        of,
        same.map(({ remote }) => remote.fileId),
      );
    const unchanged = isImport ? added.filter((file) => same.some(({ remote }) => remote === file.remote)) : same;
    const total = isImport ? added.length : added.length + same.length;
    await createImportRunsRepository(trx).add(of, { total, unchanged: unchanged.length });
  }

  async function enterFolders(
    trx: Knex,
    of: ImportRun,
    { item, base }: Pick<ImportPlace, 'item' | 'base'>,
    folders: RemoteFile[],
  ): Promise<void> {
    await createConnectorDocumentsRepository(trx).storeFolders(of, folders);
    await createImportFilesRepository(trx).addFolders(of, { item, base }, folders);
  }

  async function listWish(of: ImportRun, run: ImportRunRow, place: ImportPlace): Promise<void> {
    const found = await credentials.use(useOf(of, run), (access, { find }) => find(access, wishOf(place)));
    const remote = storable(found);
    const at = { item: place.item, base: parentPath(remote.path) };
    await note(of, place, { nextPage: null, remoteId: remote.fileId }, (trx, held) =>
      remote.isFolder ? enterFolders(trx, of, at, [remote]) : take(trx, of, held, { ...place, ...at }, [remote]),
    );
  }

  async function listFolder(of: ImportRun, run: ImportRunRow, place: ImportPlace): Promise<void> {
    const folder = { ...(place.remoteId !== null && { fileId: place.remoteId }), path: place.path ?? '' };
    const page = await credentials.use(useOf(of, run), (access, { list }) => list(access, folder, place.nextPage));
    const listed = page.files.map(storable);
    await note(of, place, page, async (trx, held) => {
      await enterFolders(
        trx,
        of,
        place,
        listed.filter(({ isFolder }) => isFolder),
      );
      await take(
        trx,
        of,
        held,
        place,
        listed.filter(({ isFolder }) => !isFolder),
      );
    });
  }

  async function listChanges(of: ImportRun, run: ImportRunRow, place: ImportPlace): Promise<void> {
    const since = place.nextPage ?? '';
    const { changes, cursor, hasMore } = await credentials.use(useOf(of, run), (access, connector) => {
      if (connector.changes === null) throw appError('cursor_expired');
      return connector.changes.since(access, since);
    });
    const present = changes.flatMap((change) => (change.kind === 'present' ? [storable(change.file)] : []));
    const folders = present.filter(({ isFolder }) => isFolder);
    const repository = createConnectorDocumentsRepository(db);
    const known = await repository.knownFolders(
      of,
      folders.map(({ fileId }) => fileId),
    );
    const gone = changes.flatMap(goneOf);
    const goneIds = gone.flatMap((each) => ('remoteId' in each ? [each.remoteId] : []));
    const isMoved = ({ fileId, path }: RemoteFile) => known.has(fileId) && known.get(fileId) !== path;
    // What is in a folder that was renamed is told by nobody, and not by its path what was in which of two.
    if (folders.some(isMoved) || (await repository.hadNamesake(of, goneIds))) return compareAll(of, run);
    await note(of, place, { nextPage: hasMore ? cursor : null }, async (trx, held) => {
      const isNew = ({ fileId }: RemoteFile) => !known.has(fileId);
      await enterFolders(trx, of, place, folders.filter(isNew));
      await take(
        trx,
        of,
        held,
        place,
        present.filter(({ isFolder }) => !isFolder),
      );
      const told = createImportFilesRepository(trx);
      // What has come back since an earlier page.
      await told.removeGone(
        of,
        present.map(({ fileId }) => fileId),
      );
      await told.addGone(of, gone);
      await createImportRunsRepository(trx).update(of, { cursor });
    });
  }

  /** Compares all that is in the folder; what changes from here on is found by the next sync. */
  async function compareAll(of: ImportRun, run: ImportRunRow): Promise<void> {
    const { folder } = run;
    const cursor = await credentials.use(useOf(of, run), async (access, { changes }) =>
      changes === null ? null : changes.begin(access, { path: folder }),
    );
    await restart(of, { mode: 'full', cursor });
  }

  async function restart(of: ImportRun, to: Pick<ImportRunRow, 'mode' | 'cursor'>): Promise<void> {
    await db.transaction(async (trx) => {
      const runs = createImportRunsRepository(trx);
      const run = await runs.lock(of);
      if (run === undefined) throw appError('connection_not_found');
      const nextPage = to.mode === 'delta' ? to.cursor : null;
      const kind = to.mode === 'delta' ? 'changes' : 'folder';
      await createImportFilesRepository(trx).restart(of, { kind, path: run.folder, nextPage });
      await runs.update(of, to);
      await runs.recount(of);
    });
  }

  return {
    compareAll,

    /** Of a sync, once: whether it asks for what has changed, or compares all, as it does once a day. */
    async begin(of: ImportRun, run: ImportRunRow): Promise<void> {
      if (run.kind === 'import' || run.mode !== null) return;
      const last = await createImportRunsRepository(db).findCursor(of.connectionId);
      if (last?.cursor == null || !last.isFresh || !isAsBefore(run, last)) return compareAll(of, run);
      await restart(of, { mode: 'delta', cursor: last.cursor });
    },

    /** Once there is no next page. */
    async end(of: ImportRun): Promise<void> {
      await db.transaction(async (trx) => {
        const runs = createImportRunsRepository(trx);
        const run = await runs.lock(of);
        if (run === undefined) throw appError('connection_not_found');
        if (run.mode === 'delta')
          await runs.add(of, { total: await createImportFilesRepository(trx).addFailedBefore(of) });
        await runs.update(of, { isListed: true });
      });
    },

    /** One page. What is wished for and cannot be had is noted; else this throws. @returns false at the end */
    async next(of: ImportRun, run: ImportRunRow): Promise<boolean> {
      const place = await files.nextPlace(of);
      if (place === undefined) return false;
      try {
        if (place.kind === 'wish') await listWish(of, run, place);
        else if (place.kind === 'folder') await listFolder(of, run, place);
        else await listChanges(of, run, place);
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        if (place.kind === 'changes' && error.code === 'cursor_expired') await compareAll(of, run);
        else if (mayBeMissed(run, place, error)) await note(of, place, { nextPage: null, error });
        else throw error;
      }
      return true;
    },
  };
}

/** Whether what has changed at the provider is all that is to be brought in line. */
function isAsBefore(run: ImportRunRow, last: SyncCursor): boolean {
  const isSamePlace = last.folder === run.folder && last.targetFolderId === run.targetFolderId;
  return isSamePlace && (last.deletesMissing || !run.deletesMissing);
}

/**
 * A folder that went while it was looked for holds nothing. Of a sync nothing else may be missed, least of all its root:
 * what it does not find it deletes.
 */
function mayBeMissed({ kind }: ImportRunRow, place: ImportPlace, { code, errorClass }: AppError): boolean {
  if (errorClass !== 'permanent' || code === 'connection_not_found') return false;
  return kind === 'import' || (code === 'remote_file_not_found' && place.remoteId !== null);
}

function isUnchanged(run: ImportRunRow, before: KnownFile, { remote, localPath }: FoundAt): boolean {
  if (run.kind === 'import') return before.document !== null && before.revision === remote.revision;
  if (before.goneAt !== null) return false;
  // Somebody has deleted it here: it does not come again by itself.
  if (before.document === null) return true;
  return (
    before.revision === remote.revision &&
    before.path === remote.path &&
    before.name === nameFromFile(remote.name) &&
    before.targetFolderId === run.targetFolderId &&
    before.localPath.join('/') === localPath.join('/')
  );
}

/** Names come from anywhere. */
function storable(file: RemoteFile): RemoteFile {
  const { fileId, name, path, mimeType, revision } = file;
  return {
    ...file,
    ...{ fileId: toStorable(fileId), name: toStorable(name), path: toStorable(path) },
    ...{ mimeType: toStorable(mimeType), revision: toStorable(revision) },
  };
}

type FoundAt = { remote: RemoteFile; localPath: string[] };

function wishOf({ remoteId, path, name, folder }: ImportPlace): RemoteFileQuery {
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
