import { randomBytes } from 'node:crypto';
import { createFakeOAuth, type FakeGrants } from './fake-oauth.ts';
import { type ProviderCall, type ProviderReply, type ProviderServer, startProviderServer } from './provider-server.ts';

type CalendarEvent = { id: string; summary?: string; start: object; end: object; [field: string]: unknown };

/** Fake of Google OAuth and the parts of Google Calendar that the service uses. */
export type FakeGoogle = ProviderServer & FakeGrants & { events: CalendarEvent[] };

export function createGoogleOAuth() {
  return createFakeOAuth({
    client: { id: 'client-1.apps.example', secret: `client-secret-${randomBytes(8).toString('hex')}` },
    paths: { authorize: '/o/oauth2/v2/auth', token: '/token', revoke: '/revoke' },
    isOffline: (asked) => asked.get('access_type') === 'offline' && asked.get('prompt') === 'consent',
    callback: { authuser: '0' },
  });
}

export const googleError = (code: number, reason: string, message: string): ProviderReply => ({
  status: code,
  json: { error: { code, message, errors: [{ domain: 'global', reason, message }] } },
});

export async function startFakeGoogle(): Promise<FakeGoogle> {
  const oauth = createGoogleOAuth();
  const events: CalendarEvent[] = [];

  function calendar(call: ProviderCall): ProviderReply {
    const { method, url, body } = call;
    const caller = oauth.callerOf(call);
    if (caller === null) return googleError(401, 'authError', 'Invalid Credentials');
    const scope = `https://www.googleapis.com/auth/calendar.${method === 'GET' ? 'readonly' : 'events'}`;
    if (!caller.scopes.includes(scope)) {
      return googleError(403, 'insufficientPermissions', 'Request had insufficient authentication scopes.');
    }
    const calendarId = decodeURIComponent(/^\/calendar\/v3\/calendars\/([^/]+)\/events$/.exec(url.pathname)?.[1] ?? '');
    if (calendarId !== 'primary') return googleError(404, 'notFound', 'Not Found');
    return method === 'GET' ? list(url) : insert(body);
  }

  function list({ searchParams }: URL): ProviderReply {
    const of = (name: string) => searchParams.get(name);
    const isMoment = (text: string | null) => text === null || /^\d{4}-\d\d-\d\dT.*(Z|[+-]\d\d:\d\d)$/.test(text);
    if (!isMoment(of('timeMin')) || !isMoment(of('timeMax'))) return googleError(400, 'badRequest', 'Bad Request');
    const found = events.filter(({ summary = '' }) => summary.toLowerCase().includes((of('q') ?? '').toLowerCase()));
    const from = Number(of('pageToken') ?? 0);
    // Google may return smaller pages than requested.
    const next = from + Math.min(Number(of('maxResults') ?? 250), 3);
    const page = { kind: 'calendar#events', items: found.slice(from, next) };
    return { status: 200, json: next < found.length ? { ...page, nextPageToken: String(next) } : page };
  }

  function insert(body: string): ProviderReply {
    const event = Object(JSON.parse(body));
    if (!event.start || !event.end) return googleError(400, 'required', 'Missing end time.');
    if (!/^[a-v0-9]{5,1024}$/.test(event.id)) return googleError(400, 'invalid', 'Invalid resource id value.');
    if (events.some(({ id }) => id === event.id)) return googleError(409, 'duplicate', 'The identifier exists.');
    const made = { ...event, htmlLink: 'https://calendar.example/event' };
    events.push(made);
    return { status: 200, json: made };
  }

  const server = await startProviderServer(
    (call) => oauth.answer(call) ?? (call.url.pathname.startsWith('/calendar/v3/') ? calendar(call) : { status: 404 }),
  );
  return { ...server, ...oauth.grants, events };
}
