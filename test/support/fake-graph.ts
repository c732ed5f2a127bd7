import { randomBytes } from 'node:crypto';
import type { FakeFiles } from './fake-drive.ts';
import { createFakeOAuth } from './fake-oauth.ts';
import { type ProviderCall, type ProviderReply, startProviderServer } from './provider-server.ts';
import { createRemoteFiles, type RemoteEntry } from './remote-tree.ts';

/** Id of the fake's only SharePoint site. */
export const fakeSiteId = 'contoso.example,11111111-aaaa-4bbb-8ccc-222222222222,33333333-dddd-4eee-8fff-444444444444';

const readScopes = ['Files.Read', 'Files.Read.All', 'Sites.Read.All'];

type Drive = { id: string; path: string };

/**
 * Fake of Microsoft Graph v1.0 with OAuth: the user's drive and the drive of one site, with the same files. Downloads come
 * from another host, by pre-authenticated URLs.
 */
export async function startFakeGraph(): Promise<FakeFiles> {
  const oauth = createFakeOAuth({
    client: { id: '7c1e7b4e-0000-4000-8000-000000000001', secret: `client-secret-${randomBytes(8).toString('hex')}` },
    paths: { authorize: '/common/oauth2/v2.0/authorize', token: '/common/oauth2/v2.0/token' },
    isOffline: (asked) => (asked.get('scope') ?? '').split(' ').includes('offline_access'),
    granted: (scopes) => scopes.filter((scope) => scope !== 'offline_access'),
    callback: { session_state: 'session-1' },
    isRotating: true,
  });
  const newId = () => `01${randomBytes(16).toString('hex').toUpperCase()}!1`;
  const files = createRemoteFiles(1_000, { newId, ignoresCase: true });
  const { tree } = files;
  /** Entries by the keys of their download URLs. */
  const keys = new Map<string, RemoteEntry>();

  const error = (status: number, code: string, message: string): ProviderReply => ({
    status,
    json: { error: { code, message, innerError: { 'request-id': randomBytes(8).toString('hex') } } },
  });
  const notFound = () => error(404, 'itemNotFound', 'The resource could not be found.');

  const storage = await startProviderServer(({ url, headers }) => {
    // Real download hosts refuse an access token, which must not be sent to them.
    const entry = keys.get(url.searchParams.get('tempauth') ?? '');
    const isAllowed = entry !== undefined && headers.authorization === undefined;
    return isAllowed ? files.download(entry, entry.mimeType) : { status: 401, text: 'unauthorized' };
  });

  function graph(call: ProviderCall): ProviderReply {
    const caller = oauth.callerOf(call);
    if (caller === null) return error(401, 'InvalidAuthenticationToken', 'Access token is missing or has expired.');
    const isOfSite = call.url.pathname.startsWith('/v1.0/sites/');
    const scopes = isOfSite ? ['Sites.Read.All', 'Files.Read.All'] : readScopes;
    if (!caller.scopes.some((scope) => scopes.includes(scope))) return error(403, 'accessDenied', 'Access denied');
    const [, place = '', rest = ''] = /^\/v1\.0\/(me\/drive|sites\/[^/]+\/drive)(\/.*)?$/.exec(call.url.pathname) ?? [];
    if (place === '') return error(400, 'BadRequest', 'Resource not found for the segment.');
    if (isOfSite && decodeURIComponent(place.split('/')[1] ?? '') !== fakeSiteId) return notFound();
    const drive = { id: isOfSite ? 'b!site-1' : `b!${caller.account}`, path: place };
    if (rest === '') {
      const owner = { user: { id: caller.account, email: `${caller.account}@example.com`, displayName: 'Test user' } };
      return answered(call, { id: drive.id, driveType: isOfSite ? 'documentLibrary' : 'business', owner });
    }
    if (rest === '/root/delta') return delta(call, drive);
    return about(call, drive, rest);
  }

  /** Answers requests for an item, its children or its content. */
  function about(call: ProviderCall, drive: Drive, rest: string): ProviderReply {
    const [, byPath, byId, action] =
      /^\/(?:root(?::\/([^:]*?):?)?|items\/([^/:]+))(\/children|\/content)?$/.exec(rest) ?? [];
    if (byId === undefined && !rest.startsWith('/root')) return error(400, 'invalidRequest', 'Malformed request');
    const entry = byId === undefined ? tree.at(decoded(byPath ?? '')) : tree.get(decodeURIComponent(byId));
    if (entry === undefined) return notFound();
    if (action === '/children') return entry.isFolder ? children(call, drive, entry) : notFound();
    if (action === '/content') {
      if (entry.isFolder) return error(400, 'invalidRequest', 'A folder has no content');
      return { status: 302, headers: { location: downloadUrl(entry) } };
    }
    const link = entry.isFolder ? {} : { '@microsoft.graph.downloadUrl': downloadUrl(entry) };
    const above = entry.parentId === null ? undefined : tree.get(entry.parentId);
    return answered(call, { ...itemOf(drive, entry, pathTo(drive, above ?? tree.root)), ...link });
  }

  const pathTo = (drive: Drive, folder: RemoteEntry) => ({
    path: `/drives/${drive.id}/root:${tree.pathOf(folder) && `/${tree.pathOf(folder)}`}`,
  });

  function itemOf(drive: Drive, entry: RemoteEntry, reference: object = {}): Record<string, unknown> {
    const { id, name, parentId, isFolder, content, changedAt, contentAt, modified } = entry;
    const parent = { driveId: drive.id, driveType: 'business' };
    const parentReference = { ...parent, ...(parentId !== null && { id: parentId, ...reference }) };
    return {
      ...{ id, name, parentReference, eTag: `"{${id}},${changedAt}"`, lastModifiedDateTime: modified.toISOString() },
      ...(parentId === null && { root: {} }),
      ...(isFolder
        ? { folder: { childCount: tree.children(id).length }, size: 0 }
        : { cTag: `"c:{${id}},${contentAt}"`, size: content.length, file: { mimeType: entry.mimeType, hashes: {} } }),
    };
  }

  function children(call: ProviderCall, drive: Drive, folder: RemoteEntry): ProviderReply {
    const { searchParams: query } = call.url;
    const from = Number(query.get('$skiptoken') ?? 0);
    const size = Math.min(Number(query.get('$top') ?? 200), files.maxPage());
    if (!Number.isInteger(from) || !(size >= 1)) return error(400, 'invalidRequest', 'Invalid request');
    const all = tree.children(folder.id);
    const value = all.slice(from, from + size).map((entry) => itemOf(drive, entry, pathTo(drive, folder)));
    const next = from + size < all.length ? { '@odata.nextLink': linkTo(call, '$skiptoken', String(from + size)) } : {};
    return answered(call, { value, ...next });
  }

  /** Lists each changed item with its present state, after its parent folders, and without paths, as Graph does. */
  function delta(call: ProviderCall, drive: Drive): ProviderReply {
    const given = call.url.searchParams.get('token') ?? call.url.searchParams.get('$skiptoken') ?? '';
    const now = () => linkTo(call, 'token', files.cursorAt(tree.now()));
    if (given === 'latest') return answered(call, { value: [], '@odata.deltaLink': now() });
    const since = files.positionOf(given);
    if (since === null) return error(410, 'resyncRequired', 'Resync required. Replace any local items.');
    const { ids, isMore, end } = files.changedSince(since);
    const entries = new Set(ids.flatMap(withAbove));
    const value = [...entries].map((entry) =>
      tree.get(entry.id) === undefined
        ? { id: entry.id, deleted: { state: 'deleted' }, parentReference: { driveId: drive.id, id: entry.parentId } }
        : itemOf(drive, entry),
    );
    const link = isMore
      ? { '@odata.nextLink': linkTo(call, '$skiptoken', files.cursorAt(end)) }
      : { '@odata.deltaLink': now() };
    return answered(call, { value, ...link });
  }

  function withAbove(id: string): RemoteEntry[] {
    const entry = tree.ever(id);
    if (entry === undefined) return [];
    return [...(entry.parentId === null ? [] : withAbove(entry.parentId)), entry];
  }

  function linkTo(call: ProviderCall, name: string, value: string): string {
    const link = new URL(call.url.pathname + call.url.search, server.baseUrl);
    for (const one of ['token', '$skiptoken']) link.searchParams.delete(one);
    link.searchParams.set(name, value);
    return link.href;
  }

  function downloadUrl(entry: RemoteEntry): string {
    const key = randomBytes(16).toString('base64url');
    oauth.grants.secrets.push(key);
    keys.set(key, entry);
    return `${storage.baseUrl}/download.aspx?tempauth=${key}`;
  }

  const server = await startProviderServer(
    (call) => oauth.answer(call) ?? (call.url.pathname.startsWith('/v1.0/') ? graph(call) : { status: 404 }),
  );
  return {
    ...{ ...server, ...oauth.grants, ...files.controls, place: `${server.place},${storage.place}` },
    close: async () => {
      await Promise.all([server.close(), storage.close()]);
    },
    token: (account) => oauth.grants.accessToken(['Files.Read.All', 'Sites.Read.All'], account),
  };
}

/** Returns the fields that `$select` names, and OData annotations. */
function answered({ url }: ProviderCall, value: Record<string, unknown>): ProviderReply {
  const selected = url.searchParams.get('$select')?.split(',') ?? null;
  const chosen = (item: object) =>
    Object.fromEntries(Object.entries(item).filter(([field]) => selected === null || selected.includes(field)));
  if (!Array.isArray(value.value)) return { status: 200, json: chosen(value) };
  return { status: 200, json: { ...value, value: value.value.map(chosen) } };
}

function decoded(path: string): string {
  return path.split('/').map(decodeURIComponent).join('/');
}
