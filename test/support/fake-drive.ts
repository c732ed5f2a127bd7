import { hash } from 'node:crypto';
import { googleError as error, googleOptions } from './fake-google.ts';
import { startFakeProvider } from './fake-oauth.ts';
import type { ProviderReply } from './provider-server.ts';
import { createRemoteFiles, type FakeFiles, plainType, type RemoteEntry } from './remote-tree.ts';

const folderType = 'application/vnd.google-apps.folder';
export const shortcutType = 'application/vnd.google-apps.shortcut';
const readScopes = ['https://www.googleapis.com/auth/drive.readonly', 'https://www.googleapis.com/auth/drive'];
const exportLimitBytes = 10 * 1_024 * 1_024;
const office = 'application/vnd.openxmlformats-officedocument';
const exportTypes: Readonly<Record<string, string>> = {
  'application/vnd.google-apps.document': `${office}.wordprocessingml.document`,
  'application/vnd.google-apps.spreadsheet': `${office}.spreadsheetml.sheet`,
  'application/vnd.google-apps.presentation': `${office}.presentationml.presentation`,
};
const notFound = error(404, 'notFound');
const invalid = error(400, 'invalid');

/** Fake of Google Drive v3 with OAuth. The content of a shortcut is the id of its target. */
export async function startFakeDrive(): Promise<FakeFiles> {
  const files = createRemoteFiles(1_000);
  const { tree } = files;
  const typeOf = ({ isFolder, mimeType }: RemoteEntry) => (isFolder ? folderType : mimeType);
  const isOfGoogle = (entry: RemoteEntry) => typeOf(entry).startsWith('application/vnd.google-apps.');

  function fileOf(entry: RemoteEntry): Record<string, unknown> {
    const { id, name, mimeType, parentId, content } = entry;
    const target = mimeType === shortcutType ? tree.get(content.toString()) : undefined;
    const targetMimeType = target === undefined ? plainType : typeOf(target);
    return {
      kind: 'drive#file',
      id,
      name,
      mimeType: typeOf(entry),
      version: String(entry.changedAt),
      trashed: tree.get(id) === undefined,
      modifiedTime: new Date(entry.contentAt * 1_000).toISOString(),
      ...(parentId !== null && { parents: [parentId] }),
      // Google's own formats have no size and no checksum.
      ...(!isOfGoogle(entry) && { size: String(content.length), md5Checksum: hash('md5', content) }),
      ...(mimeType === shortcutType && { shortcutDetails: { targetId: content.toString(), targetMimeType } }),
    };
  }

  function list(query: URLSearchParams): ProviderReply {
    const terms = termsOf(query.get('q') ?? '');
    if (terms === null) return invalid;
    const folderId = terms.parent === 'root' ? tree.root.id : terms.parent;
    if (tree.get(folderId) === undefined) return notFound;
    const found = tree
      .children(folderId)
      .filter(({ name }) => terms.name === null || name.toLowerCase() === terms.name.toLowerCase())
      .filter((entry) => terms.mimeType === null || typeOf(entry) === terms.mimeType);
    if (query.get('orderBy') === 'modifiedTime desc') found.sort((a, b) => b.contentAt - a.contentAt);
    const [from, size] = [Number(query.get('pageToken') ?? 0), Number(query.get('pageSize') ?? 100)];
    if (!Number.isInteger(from) || !(size >= 1 && size <= 1_000)) return invalid;
    const { entries, next } = files.page(found, from, size);
    return masked(query, { files: entries.map(fileOf), ...(next !== null && { nextPageToken: String(next) }) });
  }

  function changes(query: URLSearchParams): ProviderReply {
    const since = files.changesSince(query.get('pageToken') ?? '');
    if (since === null) return invalid;
    const told = since.changed.map((entry) => {
      return { kind: 'drive#change', changeType: 'file', removed: false, fileId: entry.id, file: fileOf(entry) };
    });
    return masked(query, { changes: told, [since.isLast ? 'newStartPageToken' : 'nextPageToken']: since.next });
  }

  function exported(entry: RemoteEntry, type: string): ProviderReply {
    const known = exportTypes[entry.mimeType];
    if (known === undefined) return error(403, 'fileNotExportable');
    if (known !== type) return error(400, 'badRequest');
    return entry.content.length > exportLimitBytes
      ? error(403, 'exportSizeLimitExceeded')
      : files.download(entry, type);
  }

  const options = { ...googleOptions, api: '/drive/v3/' };
  const provider = await startFakeProvider(options, ({ url: { pathname, searchParams: query } }, caller) => {
    if (!caller.scopes.some((scope) => readScopes.includes(scope))) return error(403, 'insufficientPermissions');
    const path = pathname.slice(options.api.length);
    if (path === 'about') {
      return masked(query, { user: { permissionId: caller.account, emailAddress: `${caller.account}@example.com` } });
    }
    if (path === 'changes/startPageToken') return { status: 200, json: { startPageToken: files.now() } };
    if (path === 'changes') return changes(query);
    if (path === 'files') return list(query);
    const [, id = '', isExport] = /^files\/([^/]+)(\/export)?$/.exec(path) ?? [];
    const entry = id === 'root' ? tree.root : tree.ever(decodeURIComponent(id));
    if (entry === undefined) return notFound;
    if (isExport) return exported(entry, query.get('mimeType') ?? '');
    if (query.get('alt') !== 'media') return masked(query, fileOf(entry));
    return isOfGoogle(entry) ? error(403, 'fileNotDownloadable') : files.download(entry, typeOf(entry));
  });
  const token = (account?: string) => provider.accessToken(readScopes.slice(0, 1), account);
  return { ...provider, ...files.controls, token };
}

/** Parses the queries that the connector sends; returns null for others. */
function termsOf(q: string): { parent: string; name: string | null; mimeType: string | null } | null {
  const text = String.raw`'((?:[^'\\]|\\['\\])*)'`;
  const optional = `(?: and name = ${text})?(?: and mimeType = ${text})?`;
  const found = new RegExp(`^${text} in parents${optional} and trashed = false$`).exec(q);
  if (found === null) return null;
  const plain = (value: string | undefined) => value?.replace(/\\(['\\])/g, '$1') ?? null;
  return { parent: plain(found[1]) ?? '', name: plain(found[2]), mimeType: plain(found[3]) };
}

/** Returns the fields that `fields` names; Drive returns few without it. */
function masked(query: URLSearchParams, value: Record<string, unknown>): ProviderReply {
  const usual = 'id,name,mimeType,nextPageToken,newStartPageToken,changes,files(id,name,mimeType)';
  return { status: 200, json: choose(value, query.get('fields') ?? usual) };
}

function choose(value: unknown, mask: string): unknown {
  if (Array.isArray(value)) return value.map((each) => choose(each, mask));
  if (mask === '*' || typeof value !== 'object' || value === null) return value;
  const chosen: Record<string, unknown> = {};
  for (const [, name = '', inner = '*'] of mask.matchAll(/(\w+|\*)(?:\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\))?/g)) {
    const field = Object(value)[name];
    if (field !== undefined) chosen[name] = choose(field, inner);
  }
  return chosen;
}
