import { randomBytes } from 'node:crypto';
import { startFakeProvider } from './fake-oauth.ts';
import { type ProviderReply, startProviderServer } from './provider-server.ts';
import { createRemoteFiles, type FakeFiles, type RemoteEntry } from './remote-tree.ts';

export const fakeSiteId = 'contoso.example,11111111-aaaa-4bbb-8ccc-222222222222,33333333-dddd-4eee-8fff-444444444444';

const error = (status: number, code: string): ProviderReply => ({ status, json: { error: { code, message: code } } });
const notFound = error(404, 'itemNotFound');

const options = {
  clientId: '7c1e7b4e-0000-4000-8000-000000000001',
  paths: { authorize: '/common/oauth2/v2.0/authorize', token: '/common/oauth2/v2.0/token' },
  isOffline: (asked: URLSearchParams) => (asked.get('scope') ?? '').split(' ').includes('offline_access'),
  pseudoScope: 'offline_access',
  callback: { session_state: 'session-1' },
  isRotating: true,
  api: '/v1.0/',
  unauthorized: error(401, 'InvalidAuthenticationToken'),
};

/**
 * Fake of Microsoft Graph v1.0 with OAuth: the user's drive and the drive of one site, with the same files. Downloads
 * come from another host, by pre-authenticated URLs.
 */
export async function startFakeGraph(): Promise<FakeFiles> {
  const newId = () => `01${randomBytes(16).toString('hex').toUpperCase()}!1`;
  const files = createRemoteFiles(1_000, { newId, ignoresCase: true });
  const { tree } = files;
  const keys = new Map<string, RemoteEntry>();

  const storage = await startProviderServer(({ url, headers }) => {
    // Real download hosts refuse an access token, which must not be sent to them.
    const entry = keys.get(url.searchParams.get('tempauth') ?? '');
    const isAllowed = entry !== undefined && headers.authorization === undefined;
    return isAllowed ? files.download(entry, entry.mimeType) : { status: 401, text: 'unauthorized' };
  });

  const provider = await startFakeProvider(options, ({ url }, caller) => {
    const { pathname } = url;
    const isOfSite = pathname.startsWith('/v1.0/sites/');
    const scopes = ['Files.Read.All', 'Sites.Read.All', ...(isOfSite ? [] : ['Files.Read'])];
    if (!caller.scopes.some((scope) => scopes.includes(scope))) return error(403, 'accessDenied');
    const [, place, rest = ''] = /^\/v1\.0\/(me\/drive|sites\/[^/]+\/drive)(\/.*)?$/.exec(pathname) ?? [];
    if (place === undefined) return error(400, 'BadRequest');
    if (isOfSite && decodeURIComponent(place.split('/')[1] ?? '') !== fakeSiteId) return notFound;
    if (rest === '') {
      const user = { email: `${caller.account}@example.com`, displayName: 'Test user' };
      return selected(url, { id: isOfSite ? 'b!site-1' : `b!${caller.account}`, owner: { user } });
    }
    if (rest === '/root/delta') return delta(url);
    const [, byPath, byId, action] =
      /^\/(?:root(?::\/([^:]*?):?)?|items\/([^/:]+))(\/children|\/content)?$/.exec(rest) ?? [];
    if (byId === undefined && !rest.startsWith('/root')) return error(400, 'invalidRequest');
    const entry = byId === undefined ? tree.at(decodeURIComponent(byPath ?? '')) : tree.get(decodeURIComponent(byId));
    if (entry === undefined) return notFound;
    if (action === '/children') return entry.isFolder ? children(url, entry) : notFound;
    if (entry.isFolder) return action === undefined ? selected(url, itemOf(entry)) : error(400, 'invalidRequest');
    if (action === '/content') return { status: 302, headers: { location: downloadUrl(entry) } };
    return selected(url, { ...itemOf(entry), '@microsoft.graph.downloadUrl': downloadUrl(entry) });
  });

  function itemOf({ id, name, parentId, isFolder, ...entry }: RemoteEntry): Record<string, unknown> {
    return {
      id,
      name,
      eTag: `"{${id}},${entry.changedAt}"`,
      ...(parentId === null ? { root: {} } : { parentReference: { id: parentId, driveType: 'business' } }),
      ...(isFolder
        ? { folder: { childCount: tree.children(id).length }, size: 0 }
        : { cTag: `"c:{${id}},${entry.contentAt}"`, size: entry.content.length, file: { mimeType: entry.mimeType } }),
    };
  }

  function children(url: URL, folder: RemoteEntry): ProviderReply {
    const { searchParams: query } = url;
    const [from, size] = [Number(query.get('$skiptoken') ?? 0), Number(query.get('$top') ?? 200)];
    const { entries, next } = files.page(tree.children(folder.id), from, size);
    const link = next === null ? {} : { '@odata.nextLink': linkTo(url, '$skiptoken', String(next)) };
    return selected(url, { value: entries.map(itemOf), ...link });
  }

  /** Lists each changed item with its present state, after its parent folders, and without paths, as Graph does. */
  function delta(url: URL): ProviderReply {
    const given = url.searchParams.get('token') ?? url.searchParams.get('$skiptoken') ?? '';
    if (given === 'latest') return selected(url, { value: [], '@odata.deltaLink': linkTo(url, 'token', files.now()) });
    const since = files.changesSince(given);
    if (since === null) return error(410, 'resyncRequired');
    const value = [...new Set(since.changed.flatMap(withAbove))].map((entry) =>
      tree.get(entry.id) === undefined ? { id: entry.id, deleted: { state: 'deleted' } } : itemOf(entry),
    );
    const link = since.isLast
      ? { '@odata.deltaLink': linkTo(url, 'token', since.next) }
      : { '@odata.nextLink': linkTo(url, '$skiptoken', since.next) };
    return selected(url, { value, ...link });
  }

  const withAbove = (entry: RemoteEntry): RemoteEntry[] => {
    const parent = tree.ever(entry.parentId ?? '');
    return [...(parent === undefined ? [] : withAbove(parent)), entry];
  };

  function linkTo({ pathname, search }: URL, name: string, value: string): string {
    const link = new URL(pathname + search, provider.baseUrl);
    for (const one of ['token', '$skiptoken']) link.searchParams.delete(one);
    link.searchParams.set(name, value);
    return link.href;
  }

  function downloadUrl(entry: RemoteEntry): string {
    const key = randomBytes(16).toString('base64url');
    provider.secrets.push(key);
    keys.set(key, entry);
    return `${storage.baseUrl}/download.aspx?tempauth=${key}`;
  }

  return {
    ...provider,
    ...files.controls,
    place: `${provider.place},${storage.place}`,
    close: async () => {
      await Promise.all([provider.close(), storage.close()]);
    },
    token: (account) => provider.accessToken(['Files.Read.All', 'Sites.Read.All'], account),
  };
}

/** Returns the fields that `$select` names, and OData annotations. */
function selected({ searchParams }: URL, value: Record<string, unknown>): ProviderReply {
  const fields = searchParams.get('$select')?.split(',');
  const chosen = (item: object) =>
    Object.fromEntries(Object.entries(item).filter(([field]) => fields?.includes(field) ?? true));
  if (!Array.isArray(value.value)) return { status: 200, json: chosen(value) };
  return { status: 200, json: { ...value, value: value.value.map(chosen) } };
}
