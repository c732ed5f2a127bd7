import { randomBytes } from 'node:crypto';
import type { FakeFiles } from './fake-drive.ts';
import { createFakeOAuth } from './fake-oauth.ts';
import { type ProviderCall, type ProviderReply, startProviderServer } from './provider-server.ts';
import { createPositions, createRemoteTree, digestOf, type RemoteEntry } from './remote-tree.ts';

/** Type of Dropbox's own documents, which can only be exported. */
export const paperType = 'application/vnd.dropbox.paper';

const scopes = ['account_info.read', 'files.metadata.read', 'files.content.read'];

/** An error of a route. The text before the first slash is the tag of the union. */
type Refusal = { refused: string };

type Answer = ProviderReply | Refusal;

/** Fake of Dropbox v2 with OAuth. Its change feed names deleted and moved entries by their old path only. */
export async function startFakeDropbox(): Promise<FakeFiles> {
  const oauth = createFakeOAuth({
    client: { id: 'app-key-1', secret: `client-secret-${randomBytes(8).toString('hex')}` },
    paths: { authorize: '/oauth2/authorize', token: '/oauth2/token' },
    isOffline: (asked) => asked.get('token_access_type') === 'offline',
    token: (account) => ({ token_type: 'bearer', account_id: `dbid:${account}`, uid: '1' }),
  });
  const tree = createRemoteTree({ newId: () => `id:${randomBytes(16).toString('base64url')}`, ignoresCase: true });
  const downloads: string[] = [];
  const positions = createPositions();
  let listener: ((entry: RemoteEntry, before: number) => void) | null = null;
  let maxPage = 2_000;

  const routes: Readonly<Record<string, { scope: string; isContent?: boolean; answer(argument: unknown): Answer }>> = {
    'files/list_folder': { scope: 'files.metadata.read', answer: list },
    'files/list_folder/continue': { scope: 'files.metadata.read', answer: goOn },
    'files/list_folder/get_latest_cursor': { scope: 'files.metadata.read', answer: latestCursor },
    'files/get_metadata': { scope: 'files.metadata.read', answer: metadata },
    'files/download': { scope: 'files.content.read', isContent: true, answer: download },
    'files/export': { scope: 'files.content.read', isContent: true, answer: exported },
  };

  function dropbox(call: ProviderCall, route: string): ProviderReply {
    const caller = oauth.callerOf(call);
    if (caller === null) return refusal(401, 'expired_access_token/');
    if (call.method !== 'POST') return badCall(`${route}: only POST is taken`);
    if (route === 'users/get_current_account') {
      if (call.body !== '' && call.body !== 'null') return badCall('request body: expected null');
      const names = {
        name: { display_name: 'Test user' },
        email: `${caller.account}@example.com`,
        email_verified: true,
      };
      return { status: 200, json: { account_id: `dbid:${caller.account}`, ...names, disabled: false } };
    }
    if (route === 'auth/token/revoke') {
      oauth.endGrantOf(call);
      return { status: 200, json: null };
    }
    const known = routes[route];
    if (known === undefined) return badCall(`Unknown API function: ${route}`);
    if (!caller.scopes.includes(known.scope)) return refusal(401, 'missing_scope/');
    const argument = argumentOf(call, known.isContent ?? false);
    if (typeof argument === 'string') return badCall(argument);
    const answer = known.answer(argument);
    return 'refused' in answer ? refusal(409, answer.refused) : answer;
  }

  /** Finds an entry by id or path; '' is the root. Returns null for an invalid value. */
  function placeOf(value: unknown): { entry: RemoteEntry | undefined } | null {
    if (typeof value !== 'string' || !/^(?:id:[\w-]+|(?:\/[^/]+)*)$/.test(value)) return null;
    return { entry: value.startsWith('id:') ? tree.get(value) : tree.at(value) };
  }

  function entryOf(entry: RemoteEntry): Record<string, unknown> {
    const path = `/${tree.pathOf(entry)}`;
    const named = { name: entry.name, id: entry.id, path_lower: path.toLowerCase(), path_display: path };
    if (entry.isFolder) return { '.tag': 'folder', ...named };
    const moment = `${entry.modified.toISOString().slice(0, 19)}Z`;
    const isPaper = entry.mimeType === paperType;
    return {
      '.tag': 'file',
      ...named,
      client_modified: moment,
      server_modified: moment,
      rev: `${entry.contentAt}`.padStart(9, '0'),
      size: isPaper ? 0 : entry.content.length,
      is_downloadable: !isPaper,
      ...(isPaper
        ? { export_info: { export_as: 'html', export_options: ['html', 'markdown'] } }
        : { content_hash: digestOf(entry, 'sha256') }),
    };
  }

  function list(argument: unknown): Answer {
    const { path, recursive, limit = 500 } = Object(argument);
    const place = placeOf(path);
    if (place === null) return { refused: 'path/malformed_path/' };
    if (place.entry === undefined) return { refused: 'path/not_found/' };
    if (!place.entry.isFolder) return { refused: 'path/not_folder/' };
    return recursive ? badCall('recursive lists are not played here') : page(place.entry, 0, limit);
  }

  function page(folder: RemoteEntry, from: number, limit: number): ProviderReply {
    const all = tree.children(folder.id);
    const size = Math.min(limit, maxPage);
    const cursor = `list ${from + size} ${limit} ${folder.id}`;
    const entries = all.slice(from, from + size).map(entryOf);
    return { status: 200, json: { entries, cursor, has_more: from + size < all.length } };
  }

  function latestCursor(argument: unknown): Answer {
    const { path, recursive } = Object(argument);
    const entry = placeOf(path)?.entry;
    if (entry === undefined) return { refused: 'path/not_found/' };
    if (recursive !== true) return badCall('only recursive cursors are played here');
    return { status: 200, json: { cursor: `changes ${positions.write(tree.now())} ${entry.id}` } };
  }

  function goOn(argument: unknown): Answer {
    const [kind, position = '', ...rest] = String(Object(argument).cursor).split(' ');
    const folder = tree.get(rest.at(-1) ?? '');
    if (folder === undefined) return { refused: 'path/not_found/' };
    if (kind === 'list') return page(folder, Number(position), Number(rest[0]));
    const since = positions.read(position);
    return since === null ? { refused: 'reset/' } : changes(folder, since);
  }

  /** Lists old paths without a new entry as deleted, then new and moved entries with everything below them. */
  function changes(folder: RemoteEntry, since: number): ProviderReply {
    const events = tree.eventsSince(since).slice(0, maxPage);
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
      ...gone.map((path) => deletedAt(`/${path}`)),
      ...[...new Set(came)].filter((entry) => isBelow(tree.pathOf(entry))).map(entryOf),
    ];
    const end = events.at(-1)?.at ?? tree.now();
    const cursor = `changes ${positions.write(end)} ${folder.id}`;
    return { status: 200, json: { entries, cursor, has_more: end < tree.now() } };
  }

  const deletedAt = (path: string) => ({
    '.tag': 'deleted',
    name: path.slice(path.lastIndexOf('/') + 1),
    path_lower: path.toLowerCase(),
    path_display: path,
  });

  function metadata(argument: unknown): Answer {
    const { path } = Object(argument);
    if (path === '') return badCall('path: The root folder is unsupported.');
    const place = placeOf(path);
    if (place === null) return { refused: 'path/malformed_path/' };
    return place.entry === undefined ? { refused: 'path/not_found/' } : { status: 200, json: entryOf(place.entry) };
  }

  function download(argument: unknown): Answer {
    const entry = placeOf(Object(argument).path)?.entry;
    if (entry === undefined) return { refused: 'path/not_found/' };
    if (entry.isFolder) return { refused: 'path/not_file/' };
    if (entry.mimeType === paperType) return { refused: 'unsupported_file/' };
    return sent(entry, 'application/octet-stream', () => entryOf(entry));
  }

  function exported(argument: unknown): Answer {
    const entry = placeOf(Object(argument).path)?.entry;
    if (entry === undefined) return { refused: 'path/not_found/' };
    if (entry.mimeType !== paperType) return { refused: 'non_exportable/' };
    return sent(entry, 'text/html', () => ({
      export_metadata: { name: entry.name.replace(/\.paper$/, '.html'), size: entry.content.length },
      file_metadata: entryOf(entry),
    }));
  }

  function sent(entry: RemoteEntry, type: string, result: () => object): ProviderReply {
    listener?.(entry, downloads.length);
    downloads.push(entry.id);
    const headers = { 'content-type': type, 'dropbox-api-result': asciiJson(result()) };
    return { status: 200, bytes: entry.content, headers };
  }

  const server = await startProviderServer((call) => {
    const { pathname } = call.url;
    return oauth.answer(call) ?? (pathname.startsWith('/2/') ? dropbox(call, pathname.slice(3)) : { status: 404 });
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
    token: (account) => oauth.grants.accessToken(scopes, account),
  };
}

/** Returns the argument of a call, or an error if it is passed in the wrong way. */
function argumentOf({ headers, body }: ProviderCall, isContent: boolean): unknown {
  const type = headers['content-type'];
  const header = headers['dropbox-api-arg'];
  if (isContent && (body !== '' || (type !== undefined && !/^(?:text\/plain|application\/octet-stream)/.test(type)))) {
    return 'Bad HTTP "Content-Type" header';
  }
  if (!isContent && !/^application\/json/.test(type ?? '')) return 'Bad HTTP "Content-Type" header';
  const text = isContent ? String(header) : body;
  if (isContent && !/^[\x20-\x7e]+$/.test(text)) return 'HTTP header "Dropbox-API-Arg": not ASCII';
  try {
    return JSON.parse(text);
  } catch {
    return 'could not decode input as JSON';
  }
}

function asciiJson(value: object): string {
  return JSON.stringify(value).replace(/[^\x20-\x7e]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
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
