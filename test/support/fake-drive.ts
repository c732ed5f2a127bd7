import { createGoogleOAuth } from './fake-google.ts';
import type { FakeGrants } from './fake-oauth.ts';
import { type ProviderCall, type ProviderReply, type ProviderServer, startProviderServer } from './provider-server.ts';
import {
  createPositions,
  createRemoteTree,
  digestOf,
  plainType,
  type RemoteEntry,
  type RemoteTree,
} from './remote-tree.ts';

/** Controls of a fake file provider for tests. */
export type FakeFiles = ProviderServer &
  FakeGrants & {
    tree: RemoteTree;
    /** Ids of downloaded files, oldest first. */
    downloads: string[];
    /** Calls the listener before each download, with the number of earlier downloads. */
    onDownload(listener: ((entry: RemoteEntry, before: number) => void) | null): void;
    /** Sets the maximum number of entries per page. */
    pageSize(entries: number): void;
    /** Invalidates all change cursors issued so far. */
    forgetChanges(): void;
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

/** Fake of Google Drive v3 with OAuth. The content of a shortcut is the id of its target. */
export async function startFakeDrive(): Promise<FakeFiles> {
  const oauth = createGoogleOAuth();
  const tree = createRemoteTree();
  const downloads: string[] = [];
  let listener: ((entry: RemoteEntry, before: number) => void) | null = null;
  let maxPage = 1_000;
  const positions = createPositions();

  const error = (status: number, reason: string, message: string): ProviderReply => ({
    status,
    json: { error: { code: status, message, errors: [{ domain: 'global', reason, message }] } },
  });
  const notFound = (id: string) => error(404, 'notFound', `File not found: ${id}.`);
  const invalid = (name: string) => error(400, 'invalid', `Invalid Value: ${name}`);

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
      return { status: 200, json: { kind: 'drive#startPageToken', startPageToken: positions.write(tree.now()) } };
    }
    if (path === 'changes') return changes(query);
    if (path === 'files') return list(query);
    const [, id = '', isExport] = /^files\/([^/]+)(\/export)?$/.exec(path) ?? [];
    const entry = id === 'root' ? tree.root : tree.ever(decodeURIComponent(id));
    if (entry === undefined) return notFound(id);
    if (isExport) return exported(entry, query);
    return query.get('alt') === 'media' ? media(entry) : masked(query, fileOf(entry));
  }

  function fileOf(entry: RemoteEntry): Record<string, unknown> {
    const { id, name, isFolder, mimeType, parentId, modified, content } = entry;
    const type = isFolder ? folderType : mimeType;
    const target = mimeType === shortcutType ? tree.get(content.toString()) : undefined;
    return {
      kind: 'drive#file',
      id,
      name,
      mimeType: type,
      ...(parentId !== null && { parents: [parentId] }),
      trashed: tree.get(id) === undefined,
      modifiedTime: modified.toISOString(),
      version: String(entry.changedAt),
      // Google's own formats have no size and no checksum.
      ...(!googleTypes.test(type) && { size: String(content.length), md5Checksum: digestOf(entry, 'md5') }),
      ...(mimeType === shortcutType && {
        shortcutDetails: {
          targetId: content.toString(),
          targetMimeType: target?.isFolder ? folderType : (target?.mimeType ?? plainType),
        },
      }),
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
      .filter((entry) => terms.mimeType === null || fileOf(entry).mimeType === terms.mimeType);
    if (query.get('orderBy') === 'modifiedTime desc') found.sort((a, b) => Number(b.modified) - Number(a.modified));
    const page = pageOf(found, query);
    if (page === null) return invalid('pageToken');
    const { items, next } = page;
    const more = next === null ? {} : { nextPageToken: `page-${next}` };
    return masked(query, { kind: 'drive#fileList', incompleteSearch: false, files: items.map(fileOf), ...more });
  }

  function pageOf(found: readonly RemoteEntry[], query: URLSearchParams) {
    const size = Math.min(Number(query.get('pageSize') ?? 100), maxPage);
    const from = Number((query.get('pageToken') ?? 'page-0').replace(/^page-/, ''));
    if (!Number.isInteger(from) || !(size >= 1) || size > 1_000) return null;
    return { items: found.slice(from, from + size), next: from + size < found.length ? from + size : null };
  }

  /** Lists each changed entry once with its present state, ordered by its last change. */
  function changes(query: URLSearchParams): ProviderReply {
    const since = positions.read(query.get('pageToken') ?? '');
    const size = Math.min(Number(query.get('pageSize') ?? 100), maxPage);
    if (since === null || since > tree.now()) return invalid('pageToken');
    const last = new Map(tree.eventsSince(since).map((event) => [event.id, event.at]));
    const told = [...last].sort(([, a], [, b]) => a - b).slice(0, size);
    const entries = told.flatMap(([id]) => tree.ever(id) ?? []);
    const end = told.at(-1)?.[1] ?? tree.now();
    const more =
      told.length < last.size
        ? { nextPageToken: positions.write(end) }
        : { newStartPageToken: positions.write(tree.now()) };
    return masked(query, {
      kind: 'drive#changeList',
      changes: entries.map((entry) => ({
        kind: 'drive#change',
        changeType: 'file',
        removed: false,
        fileId: entry.id,
        file: fileOf(entry),
      })),
      ...more,
    });
  }

  function media(entry: RemoteEntry): ProviderReply {
    const { mimeType } = fileOf(entry);
    if (googleTypes.test(String(mimeType))) {
      return error(403, 'fileNotDownloadable', 'Only files with binary content can be directly downloaded.');
    }
    return sent(entry, String(mimeType));
  }

  function exported(entry: RemoteEntry, query: URLSearchParams): ProviderReply {
    const types = exportTypes[entry.mimeType];
    if (types === undefined) return error(403, 'fileNotExportable', 'Export only supports Docs Editors files.');
    const type = query.get('mimeType') ?? '';
    if (!types.includes(type)) return error(400, 'badRequest', 'The requested conversion is not supported.');
    if (entry.content.length > exportLimitBytes) {
      return error(403, 'exportSizeLimitExceeded', 'This file is too large to be exported.');
    }
    return sent(entry, type);
  }

  function sent(entry: RemoteEntry, type: string): ProviderReply {
    listener?.(entry, downloads.length);
    downloads.push(entry.id);
    return { status: 200, bytes: entry.content, headers: { 'content-type': type } };
  }

  const server = await startProviderServer((call) => {
    const answered = oauth.answer(call);
    if (answered !== null) return answered;
    return call.url.pathname.startsWith('/drive/v3/') ? drive(call) : { status: 404 };
  });

  return {
    ...server,
    ...oauth.grants,
    tree,
    downloads,
    onDownload: (called) => {
      listener = called;
    },
    pageSize: (entries) => {
      maxPage = entries;
    },
    forgetChanges: positions.forget,
    token: (account) => oauth.grants.accessToken(readScopes.slice(0, 1), account),
  };
}

/** Parses the queries that the connector sends; returns null for others. */
function termsOf(q: string): { parent: string; name: string | null; mimeType: string | null } | null {
  const text = String.raw`'((?:[^'\\]|\\['\\])*)'`;
  const form = new RegExp(
    `^${text} in parents(?: and name = ${text})?(?: and mimeType = ${text})? and trashed = false$`,
  );
  const found = form.exec(q);
  if (found === null) return null;
  const plain = (value: string | undefined) => value?.replace(/\\(['\\])/g, '$1') ?? null;
  return { parent: plain(found[1]) ?? '', name: plain(found[2]), mimeType: plain(found[3]) };
}

/** Returns the fields that `fields` names, or Drive's default fields. */
function masked(query: URLSearchParams, value: Record<string, unknown>): ProviderReply {
  const mask =
    query.get('fields') ??
    'kind,id,name,mimeType,incompleteSearch,nextPageToken,newStartPageToken,files(kind,id,name,mimeType),changes';
  return { status: 200, json: choose(value, mask) };
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
