import { recordOrEmptyObject, textOrEmptyString } from '#src/adapters/providers.ts';
import { type AppError, appError } from '#src/errors.ts';
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
  requireOAuthAccess,
  requireObjectListInResponse,
  requireTextInResponse,
} from './provider-api.ts';

const fields = 'id,name,size,file,folder,root,deleted,parentReference,cTag,eTag';

type Item = {
  id: string;
  name: string;
  parentId: string | null;
  mimeType: string;
  sizeBytes: number | null;
  revision: string;
  kind: 'file' | 'folder' | 'other';
  isRoot: boolean;
  isDeleted: boolean;
  downloadUrl: string;
};

/**
 * Microsoft Graph v1.0: the drive of the account, or the document library of a site. Graph's links to the next page and
 * to later changes are opaque, so whole URLs are stored; they are followed only on Graph's own host.
 */
export function createGraphConnector({
  provider,
  baseUrl,
  ...deps
}: ConnectorDeps & { provider: 'acme_onedrive' | 'acme_sharepoint' }): Connector {
  const name = provider === 'acme_onedrive' ? 'OneDrive' : 'SharePoint';
  const root = `${baseUrl ?? 'https://graph.microsoft.com'}/v1.0`;
  const api = createProviderApiClient({ ...deps, name, roots: [root], readErrorCode, errorByCode });

  function driveOf(access: ConnectorAccess): string {
    if (provider === 'acme_onedrive') return `${root}/me/drive`;
    // Graph expects the commas in a site's id unescaped.
    return `${root}/sites/${encodeUrlSegment(requireOAuthAccess(access).siteId ?? '').replaceAll('%2C', ',')}/drive`;
  }

  function urlOf(access: ConnectorAccess, { fileId, path }: { fileId?: string; path: string }): string {
    if (fileId !== undefined) return `${driveOf(access)}/items/${encodeUrlSegment(fileId)}`;
    const names = splitRemotePath(path).map(encodeUrlSegment);
    return names.length === 0 ? `${driveOf(access)}/root` : `${driveOf(access)}/root:/${names.join('/')}:`;
  }

  const read = async (access: ConnectorAccess, url: string, select = `?$select=${fields}`): Promise<Item> =>
    itemOf(await api.ask(access, `${url.replace(/:$/, '')}${select}`));

  const pathsWithin = (access: ConnectorAccess, within: { folderId: string; path: string } | null) =>
    createFolderPathResolver(within, (fileId) =>
      read(access, urlOf(access, { fileId, path: '' })).catch(nullIfNotFound),
    );

  return {
    provider,
    revoke: null,

    async check(access) {
      const { id, owner } = await api.ask(access, `${driveOf(access)}?$select=id,owner`);
      const { user, group } = recordOrEmptyObject(owner);
      const { email, displayName } = recordOrEmptyObject(user ?? group);
      return {
        accountId: requireTextInResponse(name, id),
        accountName: textOrEmptyString(email) || textOrEmptyString(displayName),
      };
    },

    async list(access, folder, page) {
      const first = `${urlOf(access, folder)}/children?$top=200&$select=${fields}`;
      const answer = await api.ask(access, page ?? first);
      const path = splitRemotePath(folder.path).join('/');
      const items = requireObjectListInResponse(name, answer.value).map(itemOf);
      return {
        files: items.map((item) => remoteFile(item, childFilePath(path, item.name))),
        nextPage: textOrEmptyString(answer['@odata.nextLink']) || null,
      };
    },

    async find(access, wanted) {
      if (wanted.fileId === undefined) {
        const names = remotePathSegmentsOfQuery(wanted);
        const item = await read(access, urlOf(access, { path: names.join('/') }));
        return remoteFile(item, item.isRoot ? '' : childFilePath(names.slice(0, -1).join('/'), item.name));
      }
      const item = await read(access, urlOf(access, { fileId: wanted.fileId, path: '' }));
      const folder = (await pathsWithin(access, null)(item.parentId)) ?? '';
      return remoteFile(item, item.isRoot ? '' : childFilePath(folder, item.name));
    },

    async download(access, { fileId }, options) {
      const url = urlOf(access, { fileId, path: '' });
      // Reads the item without `$select`, because not every drive can select the download URL.
      const item = await read(access, url, '');
      if (item.kind !== 'file') throw appError('unsupported_format', { detail: `The item is not a file in ${name}.` });
      const { content } = await api.open(access, item.downloadUrl || `${url}/content`, options);
      // Reads the revision before the content: if the file changes in between, the next listing has another revision.
      return { content, mediaType: item.mimeType, fileName: item.name, revision: item.revision };
    },

    changes: {
      async begin(access, folder) {
        const { id } = await read(access, urlOf(access, folder));
        const latest = await api.ask(access, `${driveOf(access)}/root/delta?token=latest&$select=${fields}`);
        const position = requireTextInResponse(name, latest['@odata.deltaLink']);
        return encodeFolderListingCursor({ position, folderId: id, path: splitRemotePath(folder.path).join('/') });
      },

      async since(access, cursor) {
        const from = decodeFolderListingCursor(cursor);
        const answer = await api.ask(access, from.position);
        const changes = await changesIn(access, from, requireObjectListInResponse(name, answer.value).map(itemOf));
        const next = textOrEmptyString(answer['@odata.nextLink']);
        const position = requireTextInResponse(name, next || answer['@odata.deltaLink']);
        return { changes, cursor: encodeFolderListingCursor({ ...from, position }), hasMore: next !== '' };
      },
    },
  };

  async function changesIn(
    access: ConnectorAccess,
    within: FolderListingCursor,
    told: Item[],
  ): Promise<RemoteChange[]> {
    const pathOf = pathsWithin(access, within);
    const changes: RemoteChange[] = [];
    for (const item of told) {
      if (item.isRoot || item.id === within.folderId) continue;
      const folder = item.isDeleted ? null : await pathOf(item.parentId);
      if (folder === null) changes.push({ kind: 'gone', fileId: item.id });
      else changes.push({ kind: 'present', file: remoteFile(item, childFilePath(folder, item.name)) });
    }
    return changes;
  }
}

function itemOf(value: unknown): Item {
  const { id, name, size, file, folder, root, deleted, parentReference, cTag, eTag, ...rest } =
    recordOrEmptyObject(value);
  return {
    id: textOrEmptyString(id),
    name: textOrEmptyString(name),
    parentId: root === undefined ? textOrEmptyString(recordOrEmptyObject(parentReference).id) || null : null,
    mimeType: textOrEmptyString(recordOrEmptyObject(file).mimeType) || 'application/octet-stream',
    sizeBytes: typeof size === 'number' ? size : null,
    revision: textOrEmptyString(cTag) || textOrEmptyString(eTag),
    kind: folder !== undefined ? 'folder' : file !== undefined ? 'file' : 'other',
    isRoot: root !== undefined,
    isDeleted: deleted !== undefined,
    downloadUrl: textOrEmptyString(rest['@microsoft.graph.downloadUrl']),
  };
}

function remoteFile({ id, name, kind, mimeType, sizeBytes, revision }: Item, path: string): RemoteFile {
  const isFolder = kind === 'folder';
  return {
    fileId: id,
    name,
    path,
    mimeType: isFolder ? folderMediaType : mimeType,
    sizeBytes: isFolder ? null : sizeBytes,
    isFolder,
    revision,
  };
}

function readErrorCode({ body }: ProviderHttpResponse): string {
  return textOrEmptyString(recordOrEmptyObject(parseProviderErrorBody(body).error).code);
}

function errorByCode(_reason: string, { status }: ProviderHttpResponse): AppError | null {
  return status === 410 ? appError('cursor_expired') : null;
}
