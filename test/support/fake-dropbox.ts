import { hash, randomBytes } from 'node:crypto';
import { startFakeProvider } from './fake-oauth.ts';
import type { ProviderCall, ProviderReply } from './provider-server.ts';
import { createRemoteFiles, type FakeFiles, type RemoteEntry } from './remote-tree.ts';

/** Type of Dropbox's own documents, which can only be exported. */
export const paperType = 'application/vnd.dropbox.paper';

const scopes = ['account_info.read', 'files.metadata.read', 'files.content.read'];

const options = {
  clientId: 'app-key-1',
  paths: { authorize: '/oauth2/authorize', token: '/oauth2/token', revoke: '/2/auth/token/revoke' },
  isOffline: (asked: URLSearchParams) => asked.get('token_access_type') === 'offline',
  api: '/2/',
  unauthorized: refusal('expired_access_token/', 401),
};

type Argument = { path?: unknown; recursive?: unknown; limit?: number; cursor?: unknown };

/** Fake of Dropbox v2 with OAuth. Its change feed names deleted and moved entries by their old path only. */
export async function startFakeDropbox(): Promise<FakeFiles> {
  const newId = () => `id:${randomBytes(16).toString('base64url')}`;
  const files = createRemoteFiles(2_000, { newId, ignoresCase: true });
  const { tree } = files;
  const reply = (json: object): ProviderReply => ({ status: 200, json });

  /** Calls `answer` with the entry at an id or path; '' is the root. */
  const withEntry =
    (answer: (entry: RemoteEntry, argument: Argument) => ProviderReply) =>
    (argument: Argument): ProviderReply => {
      const path = String(argument.path);
      if (!/^(?:id:[\w-]+|(?:\/[^/]+)*)$/.test(path)) return refusal('path/malformed_path/');
      const entry = path.startsWith('id:') ? tree.get(path) : tree.at(path);
      return entry === undefined ? refusal('path/not_found/') : answer(entry, argument);
    };

  const metadataRoutes: Readonly<Record<string, (argument: Argument) => ProviderReply>> = {
    'files/list_folder': withEntry((entry, { recursive, limit = 500 }) => {
      if (recursive) return badCall('the fake has no recursive lists');
      return entry.isFolder ? page(entry, 0, limit) : refusal('path/not_folder/');
    }),
    'files/list_folder/continue': ({ cursor }) => {
      const [kind, position = '', limit, folderId = ''] = String(cursor).split(' ');
      const folder = tree.get(folderId);
      if (folder === undefined) return refusal('path/not_found/');
      return kind === 'list' ? page(folder, Number(position), Number(limit)) : changes(folder, position);
    },
    'files/list_folder/get_latest_cursor': withEntry((entry, { recursive }) =>
      recursive ? reply({ cursor: changesCursor(files.now(), entry) }) : badCall('the fake has only recursive cursors'),
    ),
    'files/get_metadata': withEntry((entry, { path }) =>
      path === '' ? badCall('path: The root folder is unsupported.') : reply(infoOf(entry)),
    ),
  };
  const contentRoutes: typeof metadataRoutes = {
    'files/download': withEntry((entry) => {
      if (entry.isFolder) return refusal('path/not_file/');
      if (entry.mimeType === paperType) return refusal('unsupported_file/');
      return sent(entry, 'application/octet-stream', infoOf(entry));
    }),
    'files/export': withEntry((entry) => {
      if (entry.mimeType !== paperType) return refusal('non_exportable/');
      const export_metadata = { name: entry.name.replace(/\.paper$/, '.html'), size: entry.content.length };
      return sent(entry, 'text/html', { export_metadata, file_metadata: infoOf(entry) });
    }),
  };

  function infoOf(entry: RemoteEntry): Record<string, unknown> {
    const path = `/${tree.pathOf(entry)}`;
    const named = { name: entry.name, id: entry.id, path_lower: path.toLowerCase(), path_display: path };
    if (entry.isFolder) return { '.tag': 'folder', ...named };
    const isPaper = entry.mimeType === paperType;
    return {
      '.tag': 'file',
      ...named,
      rev: `${entry.contentAt}`.padStart(9, '0'),
      size: isPaper ? 0 : entry.content.length,
      is_downloadable: !isPaper,
      ...(isPaper ? { export_info: { export_as: 'html' } } : { content_hash: hash('sha256', entry.content) }),
    };
  }

  function page(folder: RemoteEntry, from: number, limit: number): ProviderReply {
    const { entries, next } = files.page(tree.children(folder.id), from, limit);
    const cursor = `list ${next} ${limit} ${folder.id}`;
    return reply({ entries: entries.map(infoOf), cursor, has_more: next !== null });
  }

  const changesCursor = (position: string, folder: RemoteEntry) => `changes ${position} all ${folder.id}`;

  /** Lists old paths without a new entry as deleted, then new and moved entries with everything below them. */
  function changes(folder: RemoteEntry, position: string): ProviderReply {
    const since = files.changesSince(position);
    if (since === null) return refusal('reset/');
    const above = tree.pathOf(folder).toLowerCase();
    const isBelow = (path: string) => above === '' || path.toLowerCase().startsWith(`${above}/`);
    const left = new Set(since.events.flatMap(({ leftPath }) => leftPath ?? []).filter(isBelow));
    const gone = [...left].filter((path) => tree.at(path) === undefined);
    const came = since.events.flatMap(({ entry, leftPath }) => {
      if (tree.get(entry.id) === undefined) return [];
      return leftPath === null && !entry.isFolder ? [entry] : tree.below(entry);
    });
    const entries = [
      ...gone.map((path) => {
        const name = path.slice(path.lastIndexOf('/') + 1);
        return { '.tag': 'deleted', name, path_lower: `/${path.toLowerCase()}`, path_display: `/${path}` };
      }),
      ...[...new Set(came)].filter((entry) => isBelow(tree.pathOf(entry))).map(infoOf),
    ];
    return reply({ entries, cursor: changesCursor(since.next, folder), has_more: !since.isLast });
  }

  function sent(entry: RemoteEntry, type: string, result: object): ProviderReply {
    const { headers, ...content } = files.download(entry, type);
    const escaped = (c: string) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`;
    const ascii = JSON.stringify(result).replace(/[^\x20-\x7e]/g, escaped);
    return { ...content, headers: { ...headers, 'dropbox-api-result': ascii } };
  }

  const provider = await startFakeProvider(options, (call, { account, scopes: granted }) => {
    const route = call.url.pathname.slice(options.api.length);
    if (call.method !== 'POST') return badCall(`${route}: only POST is accepted`);
    if (route === 'users/get_current_account') {
      return reply({ account_id: `dbid:${account}`, email: `${account}@example.com` });
    }
    const isContent = route in contentRoutes;
    const answer = isContent ? contentRoutes[route] : metadataRoutes[route];
    if (answer === undefined) return badCall(`Unknown API function: ${route}`);
    if (!granted.includes(`files.${isContent ? 'content' : 'metadata'}.read`)) return refusal('missing_scope/', 401);
    const argument = argumentOf(call, isContent);
    return typeof argument === 'string' ? badCall(argument) : answer(argument);
  });
  return { ...provider, ...files.controls, token: (account) => provider.accessToken(scopes, account) };
}

/** Returns the argument of a call, or an error if it is passed in the wrong way. */
function argumentOf({ headers, body }: ProviderCall, isContent: boolean): Argument | string {
  const type = headers['content-type'];
  const isRightType = isContent
    ? body === '' && (type === undefined || /^(?:text\/plain|application\/octet-stream)/.test(type))
    : /^application\/json/.test(type ?? '');
  if (!isRightType) return 'Bad HTTP "Content-Type" header';
  const text = isContent ? String(headers['dropbox-api-arg']) : body;
  return /^[\x20-\x7e]+$/.test(text) || !isContent ? JSON.parse(text) : 'HTTP header "Dropbox-API-Arg": not ASCII';
}

function badCall(why: string): ProviderReply {
  return { status: 400, text: `Error in call to API function: ${why}` };
}

/** Converts a summary such as `path/not_found/` to the error union of Dropbox. */
function refusal(summary: string, status = 409): ProviderReply {
  const [tag = '', inner = ''] = summary.split('/');
  const error = inner === '' ? { '.tag': tag } : { '.tag': tag, [tag]: { '.tag': inner } };
  return { status, json: { error_summary: `${summary}..`, error } };
}
