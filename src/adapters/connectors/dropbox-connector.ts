import { recordOrEmptyObject, textOrEmptyString } from '#src/adapters/providers.ts';
import { AppError, appError } from '#src/errors.ts';
import type { Connector, ConnectorAccess, RemoteChange, RemoteFile } from '#src/ports/connectors.ts';
import type { ProviderHttpResponse } from '#src/ports/web.ts';
import { remotePathSegmentsOfQuery, splitRemotePath } from './folder-paths.ts';
import {
  type ConnectorDeps,
  createProviderApiClient,
  folderMediaType,
  parseProviderErrorBody,
  requireObjectListInResponse,
  requireTextInResponse,
} from './provider-api.ts';

const name = 'Dropbox';
/** At most 500 entries per listing page: more could exceed the size limit of a response. */
const listing = { limit: 500, include_non_downloadable_files: true };

/**
 * Dropbox API v2. Files without content, such as Paper documents, are exported in Dropbox's default format. Change
 * lists name deleted files by path only, without an id. Why not Dropbox's own client: see docs/adr/0038.
 */
export function createDropboxConnector({ baseUrl, ...deps }: ConnectorDeps): Connector {
  const root = `${baseUrl ?? 'https://api.dropboxapi.com'}/2`;
  const contentRoot = `${baseUrl ?? 'https://content.dropboxapi.com'}/2`;
  const api = createProviderApiClient({ ...deps, name, roots: [root, contentRoot], readErrorCode, errorByCode });

  const ask = (access: ConnectorAccess, route: string, argument: object | null) =>
    api.ask(access, `${root}/${route}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(argument),
    });

  type Options = { limitBytes: number; signal: AbortSignal };
  const open = async (access: ConnectorAccess, route: string, fileId: string, options: Options) => {
    const headers = { 'dropbox-api-arg': headerJson({ path: fileId }) };
    const opened = await api.open(access, `${contentRoot}/${route}`, { ...options, method: 'POST', headers });
    return { ...opened, result: parseProviderErrorBody(opened.headers.get('dropbox-api-result') ?? '') };
  };

  return {
    provider: 'acme_dropbox',

    async revoke(access) {
      await ask(access, 'auth/token/revoke', null);
    },

    async check(access) {
      const { account_id, email } = await ask(access, 'users/get_current_account', null);
      return { accountId: requireTextInResponse(name, account_id), accountName: textOrEmptyString(email) };
    },

    async list(access, folder, page) {
      const first = { path: pathArgument(folder), ...listing };
      const { entries, cursor, has_more } = await (page === null
        ? ask(access, 'files/list_folder', first)
        : ask(access, 'files/list_folder/continue', { cursor: page }));
      return {
        files: requireObjectListInResponse(name, entries).map(remoteFile),
        nextPage: has_more === true ? requireTextInResponse(name, cursor) : null,
      };
    },

    async find(access, wanted) {
      const path = pathArgument({ fileId: wanted.fileId, path: remotePathSegmentsOfQuery(wanted).join('/') });
      if (path === '') return remoteFile({ '.tag': 'folder' });
      return remoteFile(await ask(access, 'files/get_metadata', { path }));
    },

    async download(access, { fileId }, options) {
      try {
        const { content, result } = await open(access, 'files/download', fileId, options);
        const { name: fileName, mimeType: mediaType, revision } = remoteFile(result);
        return { content, mediaType, fileName, revision };
      } catch (error) {
        if (!(error instanceof AppError && error.code === 'unsupported_format')) throw error;
      }
      const { content, result } = await open(access, 'files/export', fileId, options);
      const { export_metadata, file_metadata } = result;
      return {
        content,
        mediaType: 'application/octet-stream',
        fileName: textOrEmptyString(recordOrEmptyObject(export_metadata).name),
        revision: remoteFile(file_metadata).revision,
      };
    },

    changes: {
      async begin(access, folder) {
        const wanted = { path: pathArgument(folder), recursive: true, ...listing };
        return requireTextInResponse(name, (await ask(access, 'files/list_folder/get_latest_cursor', wanted)).cursor);
      },

      async since(access, from) {
        const { entries, cursor, has_more } = await ask(access, 'files/list_folder/continue', { cursor: from });
        const changes = requireObjectListInResponse(name, entries).map(changeOf);
        return { changes, cursor: requireTextInResponse(name, cursor), hasMore: has_more === true };
      },
    },
  };
}

function pathArgument({ fileId, path }: { fileId?: string | undefined; path: string }): string {
  return (
    fileId ??
    splitRemotePath(path)
      .map((part) => `/${part}`)
      .join('')
  );
}

function remoteFile(value: unknown): RemoteFile {
  const {
    '.tag': tag,
    id,
    name: called,
    path_display,
    path_lower,
    size,
    content_hash,
    rev,
  } = recordOrEmptyObject(value);
  const isFolder = tag === 'folder';
  return {
    fileId: textOrEmptyString(id),
    name: textOrEmptyString(called),
    path: splitRemotePath(textOrEmptyString(path_display) || textOrEmptyString(path_lower)).join('/'),
    mimeType: isFolder ? folderMediaType : 'application/octet-stream',
    sizeBytes: typeof size === 'number' ? size : null,
    isFolder,
    revision: textOrEmptyString(content_hash) || textOrEmptyString(rev),
  };
}

function changeOf(value: unknown): RemoteChange {
  const { '.tag': tag, path_display, path_lower } = recordOrEmptyObject(value);
  return tag === 'deleted'
    ? {
        kind: 'gone-path',
        path: splitRemotePath(textOrEmptyString(path_display) || textOrEmptyString(path_lower)).join('/'),
      }
    : { kind: 'present', file: remoteFile(value) };
}

function headerJson(value: object): string {
  return JSON.stringify(value).replace(/[\u007f-\uffff]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}

/** Dropbox's `error_summary` is a code such as `path/not_found/..`; Dropbox says not to rely on its trailing dots. */
function readErrorCode({ body }: ProviderHttpResponse): string {
  return textOrEmptyString(parseProviderErrorBody(body).error_summary).replace(/[/.]+$/, '');
}

function errorByCode(reason: string): AppError | null {
  // For a path that cannot exist, Dropbox answers "malformed argument" instead of "not found".
  if (/^path\/(?:not_found|not_folder|not_file|malformed_path)/.test(reason)) return appError('remote_file_not_found');
  if (reason === 'missing_scope') return appError('not_granted');
  if (reason.startsWith('reset')) return appError('cursor_expired');
  if (/^(?:unsupported_file|non_exportable)/.test(reason)) return appError('unsupported_format');
  return null;
}
