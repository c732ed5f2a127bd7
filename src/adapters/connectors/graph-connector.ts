import { recordOrEmpty, textOrEmpty } from '#src/adapters/providers.ts';
import { type AppError, appError } from '#src/errors.ts';
import type { Connector, ConnectorAccess, RemoteChange, RemoteFile } from '#src/ports/connectors.ts';
import type { ProviderResponse } from '#src/ports/web.ts';
import {
  childPath,
  createFolderPathResolver,
  decodeFolderCursor,
  encodeFolderCursor,
  type FolderCursor,
  pathSegments,
  pathSegmentsOfQuery,
} from './folder-paths.ts';
import {
  type ConnectorDeps,
  createProviderApi,
  encodeUrlSegment,
  folderMediaType,
  nullIfNotFound,
  parseErrorBody,
  requireOAuthAccess,
  requireObjectList,
  requireText,
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
  const api = createProviderApi({ ...deps, name, roots: [root], readErrorCode, errorByCode });

  function driveOf(access: ConnectorAccess): string {
    if (provider === 'acme_onedrive') return `${root}/me/drive`;
    // Graph expects the commas in a site's id unescaped.
    return `${root}/sites/${encodeUrlSegment(requireOAuthAccess(access).siteId ?? '').replaceAll('%2C', ',')}/drive`;
  }

  function urlOf(access: ConnectorAccess, { fileId, path }: { fileId?: string; path: string }): string {
    if (fileId !== undefined) return `${driveOf(access)}/items/${encodeUrlSegment(fileId)}`;
    const names = pathSegments(path).map(encodeUrlSegment);
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
      const { user, group } = recordOrEmpty(owner);
      const { email, displayName } = recordOrEmpty(user ?? group);
      return { accountId: requireText(name, id), accountName: textOrEmpty(email) || textOrEmpty(displayName) };
    },

    async list(access, folder, page) {
      const first = `${urlOf(access, folder)}/children?$top=200&$select=${fields}`;
      const answer = await api.ask(access, page ?? first);
      const path = pathSegments(folder.path).join('/');
      const items = requireObjectList(name, answer.value).map(itemOf);
      return {
        files: items.map((item) => remoteFile(item, childPath(path, item.name))),
        nextPage: textOrEmpty(answer['@odata.nextLink']) || null,
      };
    },

    async find(access, wanted) {
      if (wanted.fileId === undefined) {
        const names = pathSegmentsOfQuery(wanted);
        const item = await read(access, urlOf(access, { path: names.join('/') }));
        return remoteFile(item, item.isRoot ? '' : childPath(names.slice(0, -1).join('/'), item.name));
      }
      const item = await read(access, urlOf(access, { fileId: wanted.fileId, path: '' }));
      const folder = (await pathsWithin(access, null)(item.parentId)) ?? '';
      return remoteFile(item, item.isRoot ? '' : childPath(folder, item.name));
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
        const position = requireText(name, latest['@odata.deltaLink']);
        return encodeFolderCursor({ position, folderId: id, path: pathSegments(folder.path).join('/') });
      },

      async since(access, cursor) {
        const from = decodeFolderCursor(cursor);
        const answer = await api.ask(access, from.position);
        const changes = await changesIn(access, from, requireObjectList(name, answer.value).map(itemOf));
        const next = textOrEmpty(answer['@odata.nextLink']);
        const position = requireText(name, next || answer['@odata.deltaLink']);
        return { changes, cursor: encodeFolderCursor({ ...from, position }), hasMore: next !== '' };
      },
    },
  };

  async function changesIn(access: ConnectorAccess, within: FolderCursor, told: Item[]): Promise<RemoteChange[]> {
    const pathOf = pathsWithin(access, within);
    const changes: RemoteChange[] = [];
    for (const item of told) {
      if (item.isRoot || item.id === within.folderId) continue;
      const folder = item.isDeleted ? null : await pathOf(item.parentId);
      if (folder === null) changes.push({ kind: 'gone', fileId: item.id });
      else changes.push({ kind: 'present', file: remoteFile(item, childPath(folder, item.name)) });
    }
    return changes;
  }
}

function itemOf(value: unknown): Item {
  const { id, name, size, file, folder, root, deleted, parentReference, cTag, eTag, ...rest } = recordOrEmpty(value);
  return {
    id: textOrEmpty(id),
    name: textOrEmpty(name),
    parentId: root === undefined ? textOrEmpty(recordOrEmpty(parentReference).id) || null : null,
    mimeType: textOrEmpty(recordOrEmpty(file).mimeType) || 'application/octet-stream',
    sizeBytes: typeof size === 'number' ? size : null,
    revision: textOrEmpty(cTag) || textOrEmpty(eTag),
    kind: folder !== undefined ? 'folder' : file !== undefined ? 'file' : 'other',
    isRoot: root !== undefined,
    isDeleted: deleted !== undefined,
    downloadUrl: textOrEmpty(rest['@microsoft.graph.downloadUrl']),
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

function readErrorCode({ body }: ProviderResponse): string {
  return textOrEmpty(recordOrEmpty(parseErrorBody(body).error).code);
}

function errorByCode(_reason: string, { status }: ProviderResponse): AppError | null {
  return status === 410 ? appError('cursor_expired') : null;
}
