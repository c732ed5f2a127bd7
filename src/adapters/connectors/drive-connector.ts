import { arrayOrEmptyArray, recordOrEmptyObject, textOrEmptyString } from '#src/adapters/providers.ts';
import { AppError, appError } from '#src/errors.ts';
import type { Connector, ConnectorAccess, RemoteChange, RemoteFile } from '#src/ports/connectors.ts';
import type { ProviderHttpResponse } from '#src/ports/web.ts';
import {
  childFilePath,
  createFolderPathResolver,
  decodeFolderListingCursor,
  encodeFolderListingCursor,
  type FolderListingCursor,
  remotePathSegmentsOfQuery,
  splitRemotePath,
} from './folder-paths.ts';
import {
  type ConnectorDeps,
  createProviderApiClient,
  encodeUrlSegment,
  folderMediaType,
  nullIfNotFound,
  parseProviderErrorBody,
  rateLimitedByProviderError,
  requireObjectListInResponse,
  requireTextInResponse,
} from './provider-api.ts';

const name = 'Google Drive';
const folderType = 'application/vnd.google-apps.folder';
const shortcutType = 'application/vnd.google-apps.shortcut';
const fields =
  'id,name,mimeType,parents,driveId,size,md5Checksum,modifiedTime,trashed,shortcutDetails(targetId,targetMimeType)';
const everyDrive = { supportsAllDrives: 'true', includeItemsFromAllDrives: 'true' };

const office = 'application/vnd.openxmlformats-officedocument';
const exportFormats: Readonly<Record<string, { mediaType: string; ending: string } | undefined>> = {
  'application/vnd.google-apps.document': { mediaType: `${office}.wordprocessingml.document`, ending: '.docx' },
  'application/vnd.google-apps.spreadsheet': { mediaType: `${office}.spreadsheetml.sheet`, ending: '.xlsx' },
  'application/vnd.google-apps.presentation': { mediaType: `${office}.presentationml.presentation`, ending: '.pptx' },
};

type DriveFile = {
  id: string;
  name: string;
  mimeType: string;
  parentId: string | null;
  driveId: string;
  sizeBytes: number | null;
  revision: string;
  isTrashed: boolean;
  targetId: string;
};

/**
 * Drive API v3. A shortcut stands for its target file, whose changes Drive does not report between two full listings; a
 * shortcut to a folder is not followed, because it may lead to a cycle. Why not Google's own client: see docs/adr/0038.
 */
export function createDriveConnector({ baseUrl, ...deps }: ConnectorDeps): Connector {
  const root = `${baseUrl ?? 'https://www.googleapis.com'}/drive/v3`;
  const api = createProviderApiClient({ ...deps, name, roots: [root], readErrorCode, errorByCode });

  const ask = (access: ConnectorAccess, path: string, query: Readonly<Record<string, string>>) =>
    api.ask(access, `${root}/${path}?${new URLSearchParams(query)}`);

  const read = async (access: ConnectorAccess, id: string): Promise<DriveFile> => {
    const file = fileOf(await ask(access, `files/${encodeUrlSegment(id)}`, { fields, supportsAllDrives: 'true' }));
    if (file.isTrashed) throw appError('remote_file_not_found');
    return file;
  };

  const search = async (access: ConnectorAccess, q: string, more: Readonly<Record<string, string>>) => {
    const query = { q: `${q} and trashed = false`, fields: `nextPageToken,files(${fields})`, ...everyDrive, ...more };
    const { files, nextPageToken } = await ask(access, 'files', query);
    return {
      files: requireObjectListInResponse(name, files).map(fileOf),
      nextPage: textOrEmptyString(nextPageToken) || null,
    };
  };

  /**
   * Resolves the names of a path one by one. File names are not unique in Drive: takes the most recently modified file.
   */
  async function resolve(access: ConnectorAccess, names: readonly string[], isFolder = false): Promise<DriveFile> {
    let found = await read(access, 'root');
    for (const [depth, wanted] of names.entries()) {
      const isBetween = isFolder || depth < names.length - 1;
      const q = `${queryLiteral(found.id)} in parents and name = ${queryLiteral(wanted)}`;
      const kind = isBetween ? ` and mimeType = ${queryLiteral(folderType)}` : '';
      const { files } = await search(access, `${q}${kind}`, { pageSize: '1', orderBy: 'modifiedTime desc' });
      if (files[0] === undefined) throw appError('remote_file_not_found');
      found = files[0];
    }
    return found;
  }

  async function followShortcut(access: ConnectorAccess, file: DriveFile): Promise<DriveFile> {
    if (file.mimeType !== shortcutType || file.targetId === '') return file;
    const target = await read(access, file.targetId).catch(nullIfNotFound);
    if (target === null || target.mimeType === folderType) return file;
    const { mimeType, sizeBytes, revision } = target;
    return { ...file, mimeType, sizeBytes, revision };
  }

  const pathsWithin = (access: ConnectorAccess, within: { folderId: string; path: string } | null) =>
    createFolderPathResolver(within, (id) => read(access, id).catch(nullIfNotFound));

  return {
    provider: 'acme_drive',
    revoke: null,

    async check(access) {
      const { user } = await ask(access, 'about', { fields: 'user(permissionId,emailAddress)' });
      const { permissionId, emailAddress } = recordOrEmptyObject(user);
      return { accountId: requireTextInResponse(name, permissionId), accountName: textOrEmptyString(emailAddress) };
    },

    async list(access, { fileId, path }, page) {
      const folderId = fileId ?? (await resolve(access, splitRemotePath(path), true)).id;
      const paging = { pageSize: '500', orderBy: 'folder,name', ...(page !== null && { pageToken: page }) };
      const { files, nextPage } = await search(access, `${queryLiteral(folderId)} in parents`, paging);
      const listed: RemoteFile[] = [];
      for (const file of files)
        listed.push(
          remoteFile(await followShortcut(access, file), childFilePath(splitRemotePath(path).join('/'), file.name)),
        );
      return { files: listed, nextPage };
    },

    async find(access, wanted) {
      if (wanted.fileId === undefined) {
        const names = remotePathSegmentsOfQuery(wanted);
        return remoteFile(await followShortcut(access, await resolve(access, names)), names.reduce(childFilePath, ''));
      }
      const found = await read(access, wanted.fileId);
      // Files that other users share have no parent folder in this account; their path starts at its root.
      const folder = (await pathsWithin(access, null)(found.parentId)) ?? '';
      return remoteFile(await followShortcut(access, found), childFilePath(folder, found.name));
    },

    async download(access, { fileId }, options) {
      const listed = await read(access, fileId);
      const file = await followShortcut(access, listed);
      const to = exportFormats[file.mimeType];
      if (to === undefined && file.mimeType.startsWith('application/vnd.google-apps.')) {
        throw appError('unsupported_format', { detail: `${name} cannot export files of type ${file.mimeType}.` });
      }
      const id = encodeUrlSegment(listed.targetId || file.id);
      const query = new URLSearchParams(
        to === undefined ? { alt: 'media', supportsAllDrives: 'true' } : { mimeType: to.mediaType },
      );
      const url = `${root}/files/${id}${to === undefined ? '' : '/export'}?${query}`;
      const { content } = await api.open(access, url, options);
      const isNamed = to === undefined || file.name.toLowerCase().endsWith(to.ending);
      return {
        content,
        mediaType: to?.mediaType ?? file.mimeType,
        fileName: isNamed ? file.name : `${file.name}${to.ending}`,
        // Reads the revision before the content: if the file changes in between, the next listing has another revision.
        revision: file.revision,
      };
    },

    changes: {
      async begin(access, { fileId, path }) {
        const folder =
          fileId === undefined ? await resolve(access, splitRemotePath(path), true) : await read(access, fileId);
        const drive = folder.driveId === '' ? {} : { driveId: folder.driveId };
        const query = { supportsAllDrives: 'true', ...drive };
        const { startPageToken } = await ask(access, 'changes/startPageToken', query);
        const position = requireTextInResponse(name, startPageToken);
        return encodeFolderListingCursor({
          position,
          folderId: folder.id,
          path: splitRemotePath(path).join('/'),
          ...drive,
        });
      },

      async since(access, cursor) {
        const from = decodeFolderListingCursor(cursor);
        const answer = await ask(access, 'changes', {
          pageToken: from.position,
          pageSize: '500',
          fields: `nextPageToken,newStartPageToken,changes(changeType,removed,fileId,file(${fields}))`,
          ...everyDrive,
          ...(from.driveId !== undefined && { driveId: from.driveId }),
        }).catch(throwExpiredCursor);
        const changes = await changesIn(access, from, requireObjectListInResponse(name, answer.changes));
        const next = textOrEmptyString(answer.nextPageToken);
        const position = requireTextInResponse(name, next || answer.newStartPageToken);
        return { changes, cursor: encodeFolderListingCursor({ ...from, position }), hasMore: next !== '' };
      },
    },
  };

  async function changesIn(
    access: ConnectorAccess,
    within: FolderListingCursor,
    told: readonly Readonly<Record<string, unknown>>[],
  ): Promise<RemoteChange[]> {
    const pathOf = pathsWithin(access, within);
    const changes: RemoteChange[] = [];
    for (const { changeType, removed, fileId, file } of told) {
      if (changeType === 'drive' || fileId === within.folderId) continue;
      const now = removed === true || file === undefined ? null : fileOf(file);
      const folder = now === null || now.isTrashed ? null : await pathOf(now.parentId);
      if (now === null || folder === null) changes.push({ kind: 'gone', fileId: textOrEmptyString(fileId) });
      else
        changes.push({
          kind: 'present',
          file: remoteFile(await followShortcut(access, now), childFilePath(folder, now.name)),
        });
    }
    return changes;
  }
}

function fileOf(value: unknown): DriveFile {
  const {
    id,
    name: called,
    mimeType,
    parents,
    size,
    md5Checksum,
    modifiedTime,
    trashed,
    ...rest
  } = recordOrEmptyObject(value);
  return {
    id: textOrEmptyString(id),
    name: textOrEmptyString(called),
    mimeType: textOrEmptyString(mimeType),
    parentId: textOrEmptyString(arrayOrEmptyArray(parents)[0]) || null,
    driveId: textOrEmptyString(rest.driveId),
    sizeBytes: typeof size === 'string' ? Number(size) : null,
    // Google's own file formats have no MD5 checksum, so their modification time is the revision.
    revision: textOrEmptyString(md5Checksum) || textOrEmptyString(modifiedTime),
    isTrashed: trashed === true,
    targetId: textOrEmptyString(recordOrEmptyObject(rest.shortcutDetails).targetId),
  };
}

function remoteFile({ id, name: called, mimeType, sizeBytes, revision }: DriveFile, path: string): RemoteFile {
  const isFolder = mimeType === folderType;
  return {
    fileId: id,
    name: called,
    path,
    mimeType: isFolder ? folderMediaType : mimeType,
    sizeBytes,
    isFolder,
    revision,
  };
}

function queryLiteral(text: string): string {
  return `'${text.replace(/['\\]/g, '\\$&')}'`;
}

function readErrorCode({ body }: ProviderHttpResponse): string {
  const error = recordOrEmptyObject(parseProviderErrorBody(body).error);
  return (
    textOrEmptyString(recordOrEmptyObject(arrayOrEmptyArray(error.errors)[0]).reason) || textOrEmptyString(error.status)
  );
}

function errorByCode(reason: string, { status, headers }: ProviderHttpResponse): AppError | null {
  if (status !== 403) return null;
  if (/RateLimitExceeded$|^rateLimitExceeded$|^quotaExceeded$|^dailyLimitExceeded$/.test(reason))
    return rateLimitedByProviderError(name, headers);
  if (reason === 'insufficientPermissions') return appError('not_granted');
  if (reason === 'fileNotDownloadable') return appError('unsupported_format');
  if (reason === 'exportSizeLimitExceeded') {
    return appError('payload_too_large', { detail: `${name} exports documents of at most 10 MB.` });
  }
  return null;
}

function throwExpiredCursor(error: unknown): never {
  const isRefused = error instanceof AppError && ['remote_file_not_found', 'provider_rejected'].includes(error.code);
  throw isRefused ? appError('cursor_expired') : error;
}
