import { randomBytes } from 'node:crypto';
import type { FakeFiles } from './fake-drive.ts';
import { createFakeOAuth } from './fake-oauth.ts';
import { type ProviderCall, type ProviderReply, startProviderServer } from './provider-server.ts';
import { createRemoteFiles, digestOf, type RemoteEntry } from './remote-tree.ts';

/** Type of Dropbox's own documents, which can only be exported. */
export const paperType = 'application/vnd.dropbox.paper';

const scopes = ['account_info.read', 'files.metadata.read', 'files.content.read'];

/** `refused` is an error of a route. The text before the first slash is the tag of the union. */
type Answer = ProviderReply | { refused: string };

/** Fake of Dropbox v2 with OAuth. Its change feed names deleted and moved entries by their old path only. */
export async function startFakeDropbox(): Promise<FakeFiles> {
  const oauth = createFakeOAuth({
    client: { id: 'app-key-1', secret: `client-secret-${randomBytes(8).toString('hex')}` },
    paths: { authorize: '/oauth2/authorize', token: '/oauth2/token' },
    isOffline: (asked) => asked.get('token_access_type') === 'offline',
    token: (account) => ({ token_type: 'bearer', account_id: `dbid:${account}`, uid: '1' }),
  });
  const newId = () => `id:${randomBytes(16).toString('base64url')}`;
  const files = createRemoteFiles(2_000, { newId, ignoresCase: true });
  const { tree } = files;

  const metadataRoutes: Readonly<Record<string, (argument: unknown) => Answer>> = {
    'files/list_folder': list,
    'files/list_folder/continue': listMore,
    'files/list_folder/get_latest_cursor': latestCursor,
    'files/get_metadata': metadata,
  };
  const contentRoutes: Readonly<Record<string, (argument: unknown) => Answer>> = {
    'files/download': download,
    'files/export': exported,
  };

  function dropbox(call: ProviderCall, route: string): ProviderReply {
    const caller = oauth.callerOf(call);
    if (caller === null) return refusal(401, 'expired_access_token/');
    if (call.method !== 'POST') return badCall(`${route}: only POST is accepted`);
    if (route === 'users/get_current_account') {
      if (call.body !== '' && call.body !== 'null') return badCall('request body: expected null');
      const names = { name: { display_name: 'Test user' }, email: `${caller.account}@example.com` };
      return { status: 200, json: { account_id: `dbid:${caller.account}`, ...names, email_verified: true } };
    }
    if (route === 'auth/token/revoke') {
      oauth.endGrantOf(call);
      return { status: 200, json: null };
    }
    const answerOf = metadataRoutes[route] ?? contentRoutes[route];
    if (answerOf === undefined) return badCall(`Unknown API function: ${route}`);
    const isContent = route in contentRoutes;
    const scope = `files.${isContent ? 'content' : 'metadata'}.read`;
    if (!caller.scopes.includes(scope)) return refusal(401, 'missing_scope/');
    const argument = argumentOf(call, isContent);
    if (typeof argument === 'string') return badCall(argument);
    const answer = answerOf(argument);
    return 'refused' in answer ? refusal(409, answer.refused) : answer;
  }

  /** Finds an entry by id or path; '' is the root. @returns a refusal for an invalid value and a missing entry */
  function entryAt(argument: unknown): RemoteEntry | { refused: string } {
    const { path } = Object(argument);
    const isSound = typeof path === 'string' && /^(?:id:[\w-]+|(?:\/[^/]+)*)$/.test(path);
    if (!isSound) return { refused: 'path/malformed_path/' };
    return (path.startsWith('id:') ? tree.get(path) : tree.at(path)) ?? { refused: 'path/not_found/' };
  }

  function infoOf(entry: RemoteEntry): Record<string, unknown> {
    const path = `/${tree.pathOf(entry)}`;
    const named = { name: entry.name, id: entry.id, path_lower: path.toLowerCase(), path_display: path };
    if (entry.isFolder) return { '.tag': 'folder', ...named };
    const server_modified = `${entry.modified.toISOString().slice(0, 19)}Z`;
    const isPaper = entry.mimeType === paperType;
    return {
      ...{ '.tag': 'file', ...named, client_modified: server_modified, server_modified },
      rev: `${entry.contentAt}`.padStart(9, '0'),
      size: isPaper ? 0 : entry.content.length,
      is_downloadable: !isPaper,
      ...(isPaper
        ? { export_info: { export_as: 'html', export_options: ['html', 'markdown'] } }
        : { content_hash: digestOf(entry, 'sha256') }),
    };
  }

  function list(argument: unknown): Answer {
    const { recursive, limit = 500 } = Object(argument);
    const entry = entryAt(argument);
    if ('refused' in entry) return entry;
    if (!entry.isFolder) return { refused: 'path/not_folder/' };
    return recursive ? badCall('the fake has no recursive lists') : page(entry, 0, limit);
  }

  function page(folder: RemoteEntry, from: number, limit: number): ProviderReply {
    const all = tree.children(folder.id);
    const next = from + Math.min(limit, files.maxPage());
    const entries = all.slice(from, next).map(infoOf);
    const cursor = `list ${next} ${limit} ${folder.id}`;
    return { status: 200, json: { entries, cursor, has_more: next < all.length } };
  }

  function latestCursor(argument: unknown): Answer {
    const entry = entryAt(argument);
    if ('refused' in entry) return entry;
    if (Object(argument).recursive !== true) return badCall('the fake has only recursive cursors');
    return { status: 200, json: { cursor: `changes ${files.cursorAt(tree.now())} ${entry.id}` } };
  }

  function listMore(argument: unknown): Answer {
    const [kind, position = '', ...rest] = String(Object(argument).cursor).split(' ');
    const folder = tree.get(rest.at(-1) ?? '');
    if (folder === undefined) return { refused: 'path/not_found/' };
    if (kind === 'list') return page(folder, Number(position), Number(rest[0]));
    const since = files.positionOf(position);
    return since === null ? { refused: 'reset/' } : changes(folder, since);
  }

  /** Lists old paths without a new entry as deleted, then new and moved entries with everything below them. */
  function changes(folder: RemoteEntry, since: number): ProviderReply {
    const events = tree.eventsSince(since).slice(0, files.maxPage());
    const above = tree.pathOf(folder).toLowerCase();
    const isBelow = (path: string) => above === '' || path.toLowerCase().startsWith(`${above}/`);
    const left = new Set(events.flatMap(({ leftPath }) => (leftPath !== null && isBelow(leftPath) ? [leftPath] : [])));
    const gone = [...left].filter((path) => tree.at(path) === undefined);
    const came = events.flatMap(({ id, leftPath }) => {
      const entry = tree.get(id);
      if (entry === undefined) return [];
      return leftPath === null && !entry.isFolder ? [entry] : tree.below(entry);
    });
    const entries = [
      ...gone.map((path) => {
        const name = path.slice(path.lastIndexOf('/') + 1);
        return { '.tag': 'deleted', name, path_lower: `/${path.toLowerCase()}`, path_display: `/${path}` };
      }),
      ...[...new Set(came)].filter((entry) => isBelow(tree.pathOf(entry))).map(infoOf),
    ];
    const end = events.at(-1)?.at ?? tree.now();
    const cursor = `changes ${files.cursorAt(end)} ${folder.id}`;
    return { status: 200, json: { entries, cursor, has_more: end < tree.now() } };
  }

  function metadata(argument: unknown): Answer {
    if (Object(argument).path === '') return badCall('path: The root folder is unsupported.');
    const entry = entryAt(argument);
    return 'refused' in entry ? entry : { status: 200, json: infoOf(entry) };
  }

  function download(argument: unknown): Answer {
    const entry = entryAt(argument);
    if ('refused' in entry) return { refused: 'path/not_found/' };
    if (entry.isFolder) return { refused: 'path/not_file/' };
    if (entry.mimeType === paperType) return { refused: 'unsupported_file/' };
    return sent(entry, 'application/octet-stream', infoOf(entry));
  }

  function exported(argument: unknown): Answer {
    const entry = entryAt(argument);
    if ('refused' in entry) return { refused: 'path/not_found/' };
    if (entry.mimeType !== paperType) return { refused: 'non_exportable/' };
    const export_metadata = { name: entry.name.replace(/\.paper$/, '.html'), size: entry.content.length };
    return sent(entry, 'text/html', { export_metadata, file_metadata: infoOf(entry) });
  }

  function sent(entry: RemoteEntry, type: string, result: object): ProviderReply {
    const { headers, ...reply } = files.download(entry, type);
    const escaped = (c: string) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`;
    const ascii = JSON.stringify(result).replace(/[^\x20-\x7e]/g, escaped);
    return { ...reply, headers: { ...headers, 'dropbox-api-result': ascii } };
  }

  const server = await startProviderServer((call) => {
    const { pathname } = call.url;
    return oauth.answer(call) ?? (pathname.startsWith('/2/') ? dropbox(call, pathname.slice(3)) : { status: 404 });
  });
  const token = (account?: string) => oauth.grants.accessToken(scopes, account);
  return { ...server, ...oauth.grants, ...files.controls, token };
}

/** Returns the argument of a call, or an error if it is passed in the wrong way. */
function argumentOf({ headers, body }: ProviderCall, isContent: boolean): unknown {
  const type = headers['content-type'];
  const isRightType = isContent
    ? body === '' && (type === undefined || /^(?:text\/plain|application\/octet-stream)/.test(type))
    : /^application\/json/.test(type ?? '');
  if (!isRightType) return 'Bad HTTP "Content-Type" header';
  const text = isContent ? String(headers['dropbox-api-arg']) : body;
  if (isContent && !/^[\x20-\x7e]+$/.test(text)) return 'HTTP header "Dropbox-API-Arg": not ASCII';
  try {
    return JSON.parse(text);
  } catch {
    return 'could not decode input as JSON';
  }
}

function badCall(why: string): ProviderReply {
  return { status: 400, text: `Error in call to API function: ${why}` };
}

/** Converts a summary such as `path/not_found/` to the error union of Dropbox. */
function refusal(status: number, summary: string): ProviderReply {
  const [tag = '', inner = ''] = summary.split('/');
  const error = inner === '' ? { '.tag': tag } : { '.tag': tag, [tag]: { '.tag': inner } };
  return { status, json: { error_summary: `${summary}..`, error } };
}
