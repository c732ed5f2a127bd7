import { createHash, randomBytes } from 'node:crypto';
import { type ProviderCall, type ProviderReply, type ProviderServer, startProviderServer } from './provider-server.ts';

type Code = {
  account: string;
  challenge: string;
  redirectUri: string;
  scopes: string[];
  isOffline: boolean;
  isUsed: boolean;
};
type Grant = { account: string; scopes: string[]; isRevoked: boolean };
type AccessToken = { grant: Grant; expiresAtMs: number };
type CalendarEvent = { id: string; summary?: string; start: object; end: object; [field: string]: unknown };

/** Each consent is of another account where none is named. */
type Choice = { account?: string; scopes?: string[]; isDenied?: boolean };

/** Google's OAuth and its calendar, as far as we use them, by their protocols. */
export type FakeGoogle = ProviderServer & {
  client: { id: string; secret: string };
  /** Goes where the browser of an administrator would, and back: the address of the callback. */
  consent(authorizeUrl: string, choice?: Choice): Promise<URL>;
  /** Every access token is too old from now on. */
  expireTokens(): void;
  /** Somebody takes back every grant in his account. */
  revokeGrants(): void;
  /** Refresh tokens change with each use from now on, and an old one ends its grant. */
  rotate(isOn: boolean): void;
  /** The life of access tokens from now on. */
  lifetimeSeconds(seconds: number): void;
  /** Grants that are not revoked. */
  liveGrants(): number;
  events: CalendarEvent[];
  /** Every token and code that was ever given out. */
  secrets: string[];
};

const allScopes = (text: string) => text.split(' ').filter(Boolean);

export async function startFakeGoogle(): Promise<FakeGoogle> {
  const client = { id: 'client-1.apps.example', secret: `client-secret-${randomBytes(8).toString('hex')}` };
  const codes = new Map<string, Code>();
  const refreshTokens = new Map<string, { grant: Grant; isSpent: boolean }>();
  const accessTokens = new Map<string, AccessToken>();
  const grants: Grant[] = [];
  const secrets: string[] = [client.secret];
  const events: CalendarEvent[] = [];
  let choice: Choice = {};
  let isRotating = false;
  let lifetime = 3_600;

  const newSecret = (kind: string) => {
    const secret = `${kind}-${randomBytes(16).toString('base64url')}`;
    secrets.push(secret);
    return secret;
  };

  /** The page on which somebody consents, answered as `choice` says. */
  function authorize({ url }: ProviderCall): ProviderReply {
    const of = (name: string) => url.searchParams.get(name) ?? '';
    const isSound =
      of('client_id') === client.id &&
      of('response_type') === 'code' &&
      of('code_challenge_method') === 'S256' &&
      /^[\w-]{43}$/.test(of('code_challenge'));
    if (!isSound) return { status: 400, text: 'Error 400: invalid_request' };
    const back = new URL(of('redirect_uri'));
    back.searchParams.set('state', of('state'));
    if (choice.isDenied) {
      back.searchParams.set('error', 'access_denied');
    } else {
      const asked = allScopes(of('scope'));
      const scopes = choice.scopes?.filter((scope) => asked.includes(scope)) ?? asked;
      const code = newSecret('code');
      const isOffline = of('access_type') === 'offline' && of('prompt') === 'consent';
      codes.set(code, {
        account: choice.account ?? code,
        challenge: of('code_challenge'),
        redirectUri: of('redirect_uri'),
        scopes,
        isOffline,
        isUsed: false,
      });
      back.searchParams.set('code', code);
      back.searchParams.set('scope', scopes.join(' '));
      back.searchParams.set('authuser', '0');
    }
    return { status: 302, headers: { location: back.href } };
  }

  const refuse = (error: string, status = 400): ProviderReply => ({
    status,
    json: { error, error_description: `Bad Request (${error})` },
  });

  function issue(grant: Grant, refreshToken?: string): ProviderReply {
    const accessToken = newSecret('access');
    accessTokens.set(accessToken, { grant, expiresAtMs: Date.now() + lifetime * 1_000 });
    return {
      status: 200,
      json: {
        access_token: accessToken,
        expires_in: lifetime,
        scope: grant.scopes.join(' '),
        token_type: 'Bearer',
        ...(refreshToken !== undefined && { refresh_token: refreshToken }),
      },
    };
  }

  function newRefreshToken(grant: Grant): string {
    const token = newSecret('refresh');
    refreshTokens.set(token, { grant, isSpent: false });
    return token;
  }

  function token({ method, body }: ProviderCall): ProviderReply {
    const form = new URLSearchParams(body);
    const of = (name: string) => form.get(name) ?? '';
    if (method !== 'POST') return refuse('invalid_request', 405);
    if (of('client_id') !== client.id || of('client_secret') !== client.secret) return refuse('invalid_client', 401);
    if (of('grant_type') === 'authorization_code') {
      const code = codes.get(of('code'));
      const challenge = createHash('sha256').update(of('code_verifier')).digest('base64url');
      if (code === undefined || code.isUsed || code.challenge !== challenge) return refuse('invalid_grant');
      if (code.redirectUri !== of('redirect_uri')) return refuse('redirect_uri_mismatch');
      code.isUsed = true;
      const grant = { account: code.account, scopes: code.scopes, isRevoked: false };
      grants.push(grant);
      return issue(grant, code.isOffline ? newRefreshToken(grant) : undefined);
    }
    if (of('grant_type') !== 'refresh_token') return refuse('unsupported_grant_type');
    const known = refreshTokens.get(of('refresh_token'));
    if (known === undefined || known.grant.isRevoked) return refuse('invalid_grant');
    if (known.isSpent) {
      known.grant.isRevoked = true;
      return refuse('invalid_grant');
    }
    if (!isRotating) return issue(known.grant);
    known.isSpent = true;
    return issue(known.grant, newRefreshToken(known.grant));
  }

  function revoke({ body }: ProviderCall): ProviderReply {
    const given = new URLSearchParams(body).get('token') ?? '';
    const grant = refreshTokens.get(given)?.grant ?? accessTokens.get(given)?.grant;
    if (grant === undefined || grant.isRevoked) return refuse('invalid_token');
    // All that the account has granted to the client ends with it.
    for (const each of grants) each.isRevoked ||= each.account === grant.account;
    return { status: 200, json: {} };
  }

  const calendarError = (status: number, reason: string, message: string): ProviderReply => ({
    status,
    json: { error: { code: status, message, errors: [{ domain: 'global', reason, message }] } },
  });

  function calendar({ method, url, headers, body }: ProviderCall): ProviderReply {
    const given = accessTokens.get(/^Bearer (.+)$/.exec(headers.authorization ?? '')?.[1] ?? '');
    if (given === undefined || given.grant.isRevoked || given.expiresAtMs < Date.now()) {
      return calendarError(401, 'authError', 'Invalid Credentials');
    }
    const scope = `https://www.googleapis.com/auth/calendar.${method === 'GET' ? 'readonly' : 'events'}`;
    if (!given.grant.scopes.includes(scope)) {
      return calendarError(403, 'insufficientPermissions', 'Request had insufficient authentication scopes.');
    }
    const calendarId = decodeURIComponent(/^\/calendar\/v3\/calendars\/([^/]+)\/events$/.exec(url.pathname)?.[1] ?? '');
    if (calendarId !== 'primary') return calendarError(404, 'notFound', 'Not Found');
    return method === 'GET' ? list(url) : insert(body);
  }

  function list({ searchParams }: URL): ProviderReply {
    const of = (name: string) => searchParams.get(name);
    const isMoment = (text: string | null) => text === null || /^\d{4}-\d\d-\d\dT.*(Z|[+-]\d\d:\d\d)$/.test(text);
    if (!isMoment(of('timeMin')) || !isMoment(of('timeMax'))) return calendarError(400, 'badRequest', 'Bad Request');
    const found = events.filter(({ summary = '' }) => summary.toLowerCase().includes((of('q') ?? '').toLowerCase()));
    const from = Number(of('pageToken') ?? 0);
    // Pages may be smaller than what was asked for.
    const size = Math.min(Number(of('maxResults') ?? 250), 3);
    const next = from + size;
    const page = { kind: 'calendar#events', items: found.slice(from, next) };
    return { status: 200, json: next < found.length ? { ...page, nextPageToken: String(next) } : page };
  }

  function insert(body: string): ProviderReply {
    const event = Object(JSON.parse(body));
    if (!event.start || !event.end) return calendarError(400, 'required', 'Missing end time.');
    if (!/^[a-v0-9]{5,1024}$/.test(event.id)) return calendarError(400, 'invalid', 'Invalid resource id value.');
    if (events.some(({ id }) => id === event.id))
      return calendarError(409, 'duplicate', 'The requested identifier already exists.');
    const made = { ...event, htmlLink: 'https://calendar.example/event' };
    events.push(made);
    return { status: 200, json: made };
  }

  const server = await startProviderServer((call) => {
    const { pathname } = call.url;
    if (pathname === '/o/oauth2/v2/auth') return authorize(call);
    if (pathname === '/token') return token(call);
    if (pathname === '/revoke') return revoke(call);
    return pathname.startsWith('/calendar/v3/') ? calendar(call) : { status: 404 };
  });

  return {
    ...server,
    client,
    events,
    secrets,
    async consent(authorizeUrl, chosen = {}) {
      choice = chosen;
      const response = await fetch(authorizeUrl, { redirect: 'manual' });
      const location = response.headers.get('location');
      if (location === null) throw new Error(`the consent page answers ${response.status}`);
      return new URL(location);
    },
    expireTokens: () => {
      for (const token of accessTokens.values()) token.expiresAtMs = 0;
    },
    revokeGrants: () => {
      for (const { grant } of refreshTokens.values()) grant.isRevoked = true;
    },
    rotate: (isOn) => {
      isRotating = isOn;
    },
    lifetimeSeconds: (seconds) => {
      lifetime = seconds;
    },
    liveGrants: () => new Set([...refreshTokens.values()].map(({ grant }) => grant).filter((g) => !g.isRevoked)).size,
  };
}
