import { createGoogleOAuth, googleError as error } from './fake-google.ts';
import type { FakeGrants } from './fake-oauth.ts';
import { type ProviderCall, type ProviderReply, type ProviderServer, startProviderServer } from './provider-server.ts';
import { createRemoteFiles, digestOf, plainType, type RemoteEntry } from './remote-tree.ts';

/** Controls of a fake file provider for tests. */
export type FakeFiles = ProviderServer &
  FakeGrants &
  ReturnType<typeof createRemoteFiles>['controls'] & {
    /** Issues an access token with all scopes that the service requests. */
    token(account?: string): string;
  };

const folderType = 'application/vnd.google-apps.folder';
export const shortcutType = 'application/vnd.google-apps.shortcut';
const googleTypes = /^application\/vnd\.google-apps\./;
const readScopes = ['https://www.googleapis.com/auth/drive.readonly', 'https://www.googleapis.com/auth/drive'];
const exportLimitBytes = 10 * 1_024 * 1_024;
const office = 'application/vnd.openxmlformats-officedocument';
const exportTypes: Readonly<Record<string, string[]>> = {
  'application/vnd.google-apps.document': [`${office}.wordprocessingml.document`, 'application/pdf', 'text/plain'],
  'application/vnd.google-apps.spreadsheet': [`${office}.spreadsheetml.sheet`, 'application/pdf', 'text/csv'],
  'application/vnd.google-apps.presentation': [`${office}.presentationml.presentation`, 'application/pdf'],
};
const notFound = (id: string) => error(404, 'notFound', `File not found: ${id}.`);
const invalid = (name: string) => error(400, 'invalid', `Invalid Value: ${name}`);

/** Fake of Google Drive v3 with OAuth. The content of a shortcut is the id of its target. */
export async function startFakeDrive(): Promise<FakeFiles> {
  const oauth = createGoogleOAuth();
  const files = createRemoteFiles(1_000);
  const { tree } = files;

  function drive(call: ProviderCall): ProviderReply {
    const caller = oauth.callerOf(call);
    if (caller === null) return error(401, 'authError', 'Invalid Credentials');
    if (!caller.scopes.some((scope) => readScopes.includes(scope))) {
      return error(403, 'insufficientPermissions', 'Request had insufficient authentication scopes.');
    }
    const { pathname, searchParams: query } = call.url;
    const path = pathname.slice('/drive/v3/'.length);
    if (path === 'about') {
      if (!query.has('fields')) return error(400, 'required', "The 'fields' parameter is required for this method.");
      const user = { permissionId: caller.account, emailAddress: `${caller.account}@example.com` };
      return masked(query, { user: { kind: 'drive#user', displayName: 'Test user', me: true, ...user } });
    }
    if (path === 'changes/startPageToken') {
      const startPageToken = files.cursorAt(tree.now());
      return { status: 200, json: { kind: 'drive#startPageToken', startPageToken } };
    }
    if (path === 'changes') return changes(query);
    if (path === 'files') return list(query);
    const [, id = '', isExport] = /^files\/([^/]+)(\/export)?$/.exec(path) ?? [];
    const entry = id === 'root' ? tree.root : tree.ever(decodeURIComponent(id));
    if (entry === undefined) return notFound(id);
    if (isExport) return exported(entry, query.get('mimeType') ?? '');
    return query.get('alt') === 'media' ? media(entry) : masked(query, fileOf(entry));
  }

  const typeOf = ({ isFolder, mimeType }: RemoteEntry) => (isFolder ? folderType : mimeType);

  function fileOf(entry: RemoteEntry): Record<string, unknown> {
    const { id, name, mimeType, parentId, modified, content } = entry;
    const target = mimeType === shortcutType ? tree.get(content.toString()) : undefined;
    const targetMimeType = target === undefined ? plainType : typeOf(target);
    return {
      ...{ kind: 'drive#file', id, name, mimeType: typeOf(entry), version: String(entry.changedAt) },
      ...{ trashed: tree.get(id) === undefined, modifiedTime: modified.toISOString() },
      ...(parentId !== null && { parents: [parentId] }),
      // Google's own formats have no size and no checksum.
      ...(!googleTypes.test(typeOf(entry)) && { size: String(content.length), md5Checksum: digestOf(entry, 'md5') }),
      ...(mimeType === shortcutType && { shortcutDetails: { targetId: content.toString(), targetMimeType } }),
    };
  }

  function list(query: URLSearchParams): ProviderReply {
    const terms = termsOf(query.get('q') ?? '');
    if (terms === null) return invalid('q');
    const folderId = terms.parent === 'root' ? tree.root.id : terms.parent;
    if (tree.get(folderId) === undefined) return notFound('.');
    const found = tree
      .children(folderId)
      .filter(({ name }) => terms.name === null || name.toLowerCase() === terms.name.toLowerCase())
      .filter((entry) => terms.mimeType === null || typeOf(entry) === terms.mimeType);
    if (query.get('orderBy') === 'modifiedTime desc') found.sort((a, b) => Number(b.modified) - Number(a.modified));
    const size = Math.min(Number(query.get('pageSize') ?? 100), files.maxPage());
    const from = Number((query.get('pageToken') ?? 'page-0').replace(/^page-/, ''));
    if (!Number.isInteger(from) || !(size >= 1) || size > 1_000) return invalid('pageToken');
    return masked(query, {
      ...{ kind: 'drive#fileList', incompleteSearch: false },
      files: found.slice(from, from + size).map(fileOf),
      ...(from + size < found.length && { nextPageToken: `page-${from + size}` }),
    });
  }

  /** Lists each changed entry once with its present state, ordered by its last change. */
  function changes(query: URLSearchParams): ProviderReply {
    const since = files.positionOf(query.get('pageToken') ?? '');
    if (since === null || since > tree.now()) return invalid('pageToken');
    const { ids, isMore, end } = files.changedSince(since);
    const told = ids
      .flatMap((id) => tree.ever(id) ?? [])
      .map((entry) => {
        const change = { kind: 'drive#change', changeType: 'file', removed: false };
        return { ...change, fileId: entry.id, file: fileOf(entry) };
      });
    const next = isMore ? { nextPageToken: files.cursorAt(end) } : { newStartPageToken: files.cursorAt(tree.now()) };
    return masked(query, { kind: 'drive#changeList', changes: told, ...next });
  }

  function media(entry: RemoteEntry): ProviderReply {
    if (!googleTypes.test(typeOf(entry))) return files.download(entry, typeOf(entry));
    return error(403, 'fileNotDownloadable', 'Only files with binary content can be directly downloaded.');
  }

  function exported(entry: RemoteEntry, type: string): ProviderReply {
    const types = exportTypes[entry.mimeType];
    if (types === undefined) return error(403, 'fileNotExportable', 'Export only supports Docs Editors files.');
    if (!types.includes(type)) return error(400, 'badRequest', 'The requested conversion is not supported.');
    if (entry.content.length <= exportLimitBytes) return files.download(entry, type);
    return error(403, 'exportSizeLimitExceeded', 'This file is too large to be exported.');
  }

  const server = await startProviderServer(
    (call) => oauth.answer(call) ?? (call.url.pathname.startsWith('/drive/v3/') ? drive(call) : { status: 404 }),
  );
  const token = (account?: string) => oauth.grants.accessToken(readScopes.slice(0, 1), account);
  return { ...server, ...oauth.grants, ...files.controls, token };
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

/** Returns the fields that `fields` names, or Drive's default fields. */
function masked(query: URLSearchParams, value: Record<string, unknown>): ProviderReply {
  const usual = 'kind,id,name,mimeType,incompleteSearch,nextPageToken,newStartPageToken,changes';
  return { status: 200, json: choose(value, query.get('fields') ?? `${usual},files(kind,id,name,mimeType)`) };
}

/** Applies a field mask such as `a,b(c,d)` or `*`. */
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
